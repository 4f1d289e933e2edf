// Writes row kernels (rows_plan.h) as text: the place of a thread, the walk over its rows, and the values
// carried from row to row. rows_level.h writes the work on a row.
#include "codegen/cuda/rows.h"

#include <algorithm>
#include <set>

#include "codegen/cuda/rows_level.h"
#include "codegen/cuda/rows_values.h"
#include "codegen/tile/row_condition.h"
#include "codegen/tile/walk.h"

namespace rewire::codegen::cuda {
namespace {

using tile::AxisUse;
using tile::Node;
using tile::TileValue;

constexpr std::int64_t kMostUnrolled = 4;     // rows of a part whose loads are in flight at once
constexpr std::int64_t kBoundedUnrolled = 8;  // the same, where rows are few on average but may be many

class RowsWriter {
 public:
  RowsWriter(const tile::Kernel& kernel, const EntryPoint& entry, const RowsPlan& plan)
      : kernel_(kernel), plan_(plan), text_(kernel, entry), values_(plan, text_, lines_) {}

  KernelSource write() {
    LaunchShape launch{plan_.blocks(), plan_.block_threads(), shared_bytes()};
    text_.head(lines_, launch, plan_.resident_blocks, how());
    lines_.indent(1);
    declare_places();
    if (plan_.by_partition) {
      write_partition();
    } else if (axes_of(kernel_, AxisUse::row).empty()) {
      open_rows();
      write_section(plan_.prologue, SectionId::prologue);
      write_section(plan_.epilogue, SectionId::epilogue);
      close_rows();
    } else {
      write_section(plan_.prologue, SectionId::prologue);
      open_rows();
      write_section(plan_.body, SectionId::body);
      close_rows();
    }
    text_.foot(lines_);
    return {text_.symbol(), lines_.take(), launch};
  }

 private:
  bool has_lanes() const { return !plan_.lane_axes.empty(); }

  /// Returns the most reductions of any level of a section.
  static std::size_t reductions_of(const Section& section) {
    std::vector<std::size_t> counts(static_cast<std::size_t>(section.levels) + 1);
    for (const LeveledNode& node : section.nodes) {
      if (std::holds_alternative<tile::Reduce>(*node.node)) ++counts[static_cast<std::size_t>(node.level)];
    }
    return *std::max_element(counts.begin(), counts.end());
  }
  static bool reduces(const Section& section) { return reductions_of(section) > 0; }

  bool merges() const { return plan_.by_partition && plan_.groups > 1 && plan_.adds_up(); }

  std::int64_t shared_bytes() const {
    const std::size_t most =
        std::max({reductions_of(plan_.prologue), reductions_of(plan_.body), reductions_of(plan_.epilogue)});
    const auto of_a_warp = static_cast<std::int64_t>(8 * std::min(most, kMostTogether));
    std::int64_t bytes = plan_.is_block_row() ? of_a_warp * (plan_.threads / 32) : 0;
    if (!merges()) return bytes;
    for (const tile::Carried& carried : kernel_.carried) {
      const tile::ValueInfo& info = text_.info(carried.entry);
      const std::int64_t elements = info.lanes.empty() ? 1 : plan_.elements();
      bytes = std::max(bytes, elements * plan_.block_threads() * arithmetic_bytes(info.dtype));
    }
    return (bytes + 15) / 16 * 16;
  }

  std::string how() const {
    std::string text;
    if (has_lanes()) {
      text =
          fmt::format("{} thread{} a row{}, {} element{} each", plan_.threads, plan_.threads == 1 ? "" : "s",
                      plan_.lane_blocks > 1 ? fmt::format(", {} blocks side by side", plan_.lane_blocks) : "",
                      plan_.elements(), plan_.elements() == 1 ? "" : "s");
    }
    const auto add = [&](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
    if (merges()) {
      add(fmt::format("{} groups walk a part's rows in turn and add up at the end, in their order",
                      plan_.groups));
    } else if (plan_.by_partition) {
      add("a block walks a part's rows");
    } else if (plan_.groups * plan_.repeats > 1) {
      add(fmt::format("{} rows a block", plan_.groups * plan_.repeats));
    }
    return text;
  }

  // --- the place of a thread

  void declare_places() {
    if (has_lanes()) {
      lines_.line("using L = Row<{}, {}, {}{}>;", plan_.lanes, plan_.threads, plan_.vector,
                  plan_.lane_blocks > 1 ? fmt::format(", {}", plan_.chunks) : "");
    }
    if (shared_bytes() > 0) lines_.line("REWIRE_SHARED(shared);");
    const int threads = plan_.threads;
    if (has_lanes() || threads > 1) {
      std::string thread = threads == 1                       ? std::string("0")
                           : threads == plan_.block_threads() ? std::string("int(threadIdx.x)")
                                                              : fmt::format("int(threadIdx.x) % {}", threads);
      if (plan_.lane_blocks > 1) {
        const std::int64_t held = std::int64_t{threads} * plan_.chunks;
        const std::string before = fmt::format("int(blockIdx.x % {}){}", plan_.lane_blocks,
                                               held == 1 ? "" : fmt::format(" * {}", held));
        thread = thread == "0" ? before : thread + " + " + before;
      }
      lines_.line("const int thread = {};", thread);
    }
    if (plan_.groups > 1)
      lines_.line("const int group = int(threadIdx.x){};", threads == 1 ? "" : fmt::format(" / {}", threads));
    declare_block();
  }

  void declare_block() {
    const std::string block =
        plan_.lane_blocks > 1 ? fmt::format("blockIdx.x / {}", plan_.lane_blocks) : std::string("blockIdx.x");
    const bool outer = !axes_of(kernel_, AxisUse::row).empty() && plan_.outer > 1;
    if (outer) {
      lines_.line("const int outer = int({}{});", block,
                  plan_.row_blocks > 1 ? fmt::format(" / {}", plan_.row_blocks) : "");
      text_.declare_indices(lines_, AxisUse::outer, "outer");
    }
    if (plan_.row_blocks == 1) {
      block_ = "0";
    } else {
      block_ = outer ? fmt::format("int({} % {})", block, plan_.row_blocks) : fmt::format("int({})", block);
    }
    if (plan_.by_partition && kernel_.partitions > 1) lines_.line("const int part = {};", block_);
  }

  /// Returns whether the rows do not divide evenly among the groups. The last rows are then computed twice,
  /// but written once.
  bool uneven() const {
    if (plan_.by_partition) {
      return merges() && (kernel_.bounds || kernel_.row_count() % plan_.groups != 0 ||
                          (kernel_.partitions > 1 && kernel_.rows_per_partition() % plan_.groups != 0));
    }
    return plan_.rows % (std::int64_t{plan_.groups} * plan_.repeats) != 0;
  }

  void open_rows() {
    const std::int64_t step = std::int64_t{plan_.groups} * plan_.repeats;
    const auto product = [](const std::string& factor, std::int64_t by) {
      return factor == "0" ? std::string() : by == 1 ? factor : fmt::format("{} * {}", factor, by);
    };
    std::string first = product(block_, step);
    if (plan_.groups > 1) first += first.empty() ? "group" : " + group";
    if (plan_.repeats > 1) {
      lines_.open("for (int i = 0; i < {}; ++i)", plan_.repeats);
      first += fmt::format("{}i{}", first.empty() ? "" : " + ",
                           plan_.groups > 1 ? fmt::format(" * {}", plan_.groups) : "");
    }
    declare_row(first.empty() ? "0" : first, plan_.rows);
    text_.declare_indices(lines_, axes_of(kernel_, AxisUse::row).empty() ? AxisUse::outer : AxisUse::row,
                          row_name());
  }

  /// Returns the name of the row index: the axis's name if rows have only one axis, otherwise "row".
  std::string row_name() const {
    const bool rows = !axes_of(kernel_, AxisUse::row).empty();
    std::string name;
    for (std::int32_t axis : axes_of(kernel_, rows ? AxisUse::row : AxisUse::outer)) {
      if (text_.axis(axis).extent == 1) continue;
      if (!name.empty()) return "row";
      name = text_.axis(axis).name;
    }
    return name.empty() ? "row" : name;
  }

  void declare_row(const std::string& index, std::int64_t rows) {
    const std::string name = row_name();
    if (uneven()) {
      lines_.line("const bool active = {} < {};", index, rows);
      lines_.line("const int {} = active ? {} : {};", name, index, rows - 1);
      guard_ = "active";
    } else if (rows > 1) {
      lines_.line("const int {} = {};", name, index);
    }
  }

  void close_rows() {
    if (plan_.repeats > 1) lines_.close();
  }

  // --- a partition's rows

  void write_partition() {
    guard_ = plan_.groups > 1 ? "group == 0" : "";
    write_section(plan_.prologue, SectionId::prologue);
    start_carried();
    guard_.clear();
    walk_rows();
    if (merges()) merge();
    guard_ = plan_.groups > 1 ? "group == 0" : "";
    write_section(plan_.epilogue, SectionId::epilogue);
  }

  void start_carried() {
    for (std::size_t i = 0; i < kernel_.carried.size(); ++i) {
      const tile::Carried& carried = kernel_.carried[i];
      const CarriedPlan& plan = plan_.carried[i];
      const std::string& name = text_.name(carried.entry);
      const auto start = [&](const std::string& initial) {
        if (!merges() || plan.additive == tile::ReduceKind::max) return initial;
        const std::string zero = literal(0, text_.info(carried.entry).dtype);
        return initial == zero ? zero : fmt::format("group == 0 ? {} : {}", initial, zero);
      };
      if (text_.info(carried.entry).lanes.empty()) {
        lines_.line("{} {} = {};", text_.type(carried.entry), name,
                    start(values_.read(carried.initial).text));
        values_.know(carried.entry, name);
        values_.know(carried.last, name);
        continue;
      }
      const Node* initial = values_.definition(carried.initial);
      const auto* constant = initial == nullptr ? nullptr : std::get_if<tile::Constant>(initial);
      if (constant != nullptr && constant->value == 0) {
        lines_.line("{} {}[L::kElements] = {{}};", text_.type(carried.entry), name);
        continue;
      }
      lines_.line("{} {}[L::kElements];", text_.type(carried.entry), name);
      values_.open_elements();
      if (plan_.home(carried.initial).again) values_.declare_lanes();
      lines_.line("{}[e] = {};", name, start(values_.read(carried.initial).text));
      values_.close_elements();
    }
  }

  void walk_rows() {
    const std::int64_t part_rows = kernel_.rows_per_partition();
    const int step = merges() ? plan_.groups : 1;
    const std::string first = kernel_.partitions > 1 ? fmt::format("part * {}", part_rows) : std::string("0");
    const bool short_last = kernel_.row_count() % kernel_.partitions != 0 || kernel_.partitions == 1;
    const std::string end = kernel_.partitions == 1 ? std::to_string(kernel_.row_count())
                            : short_last
                                ? fmt::format("minimum(first + {}, {})", part_rows, kernel_.row_count())
                                : fmt::format("first + {}", part_rows);
    if (kernel_.bounds) {
      lines_.line("const int first = maximum({}, 0), end = minimum({}, {});",
                  values_.read(kernel_.bounds->first).text, values_.read(kernel_.bounds->end).text, end);
    } else {
      lines_.line("const int first = {}, end = {};", first, end);
    }
    const std::string name = row_name();
    const std::int64_t unroll = std::min<std::int64_t>((part_rows + step - 1) / step,
                                                       kernel_.bounds ? kBoundedUnrolled : kMostUnrolled);
    if (!reduces(plan_.body) && unroll > 1) lines_.directive(fmt::format("#pragma unroll {}", unroll));
    if (step == 1) {
      lines_.open("for (int {0} = first; {0} < end; ++{0})", name);
    } else {
      lines_.open("for (int base = first; base < end; base += {})", step);
      if (uneven()) {
        lines_.line("const bool active = base + group < end;");
        lines_.line("const int {} = active ? base + group : end - 1;", name);
        guard_ = "active";
      } else {
        lines_.line("const int {} = base + group;", name);
      }
    }
    if (step == 1 && plan_.groups > 1) guard_ = "group == 0";
    text_.declare_indices(lines_, AxisUse::row, name);
    write_section(plan_.body, SectionId::body);
    copy_carried();
    lines_.close();
  }

  /// Copies the carried values that are not added in place to the next row, all at once. If one value
  /// becomes what another was, that one is saved before it is overwritten. Values with lanes come first,
  /// since they may repeat a scalar.
  void copy_carried() {
    const auto flows = [&](std::size_t i, bool lanes) {
      return !plan_.carried[i].additive && text_.info(kernel_.carried[i].entry).lanes.empty() != lanes;
    };
    const auto copy = [&](bool lanes, const std::string& element) {
      const auto kept = [&](TileValue value, std::size_t reader) {
        for (std::size_t i = 0; i < kernel_.carried.size(); ++i) {
          if (i != reader && flows(i, lanes) && kernel_.carried[i].entry == value) return true;
        }
        return false;
      };
      const auto before = [&](TileValue value) { return text_.name(value) + "_before"; };
      std::set<std::string> declared;
      for (std::size_t i = 0; i < kernel_.carried.size(); ++i) {
        const TileValue next = kernel_.carried[i].next;
        if (flows(i, lanes) && kept(next, i) && declared.insert(before(next)).second)
          lines_.line("const {} {} = {}{};", text_.type(next), before(next), text_.name(next), element);
      }
      for (std::size_t i = 0; i < kernel_.carried.size(); ++i) {
        const tile::Carried& carried = kernel_.carried[i];
        if (!flows(i, lanes)) continue;
        lines_.line("{}{} = {};", text_.name(carried.entry), element,
                    kept(carried.next, i) ? before(carried.next) : values_.read(carried.next).text);
      }
    };
    bool any = false;
    for (std::size_t i = 0; i < kernel_.carried.size(); ++i) any = any || flows(i, true);
    if (any) {
      values_.open_elements();
      copy(true, "[e]");
      values_.close_elements();
    }
    copy(false, "");
  }

  void merge() {
    for (std::size_t i = 0; i < kernel_.carried.size(); ++i) {
      const TileValue entry = kernel_.carried[i].entry;
      const std::string_view op = reduction_functor(*plan_.carried[i].additive);
      const std::string call = fmt::format("over_groups<{}, {}, {}>", op, plan_.threads, plan_.groups);
      if (text_.info(entry).lanes.empty()) {
        lines_.line("{0} = {1}({0}, shared);", text_.name(entry), call);
      } else {
        lines_.line("{}({}, shared);", call, text_.name(entry));
      }
    }
  }

  // --- sections

  void write_section(const Section& section, SectionId id) {
    const bool walks = plan_.by_partition && id == SectionId::body;
    const RowGuard guard{guard_of(id), guard_ == "active" ? guard_ : "",
                         walks ? tile::row_conditions(kernel_) : std::vector<TileValue>{}};
    for (int level = 0; level < section.levels; ++level) {
      std::vector<const Node*> nodes;
      for (const LeveledNode& node : section.nodes) {
        if (node.level == level) nodes.push_back(node.node);
      }
      write_level(nodes, guard, plan_, text_, lines_, values_);
    }
  }

  /// Returns the condition under which a section writes. If several groups and blocks share a prologue's
  /// instance, only the first of them writes.
  std::string guard_of(SectionId section) const {
    const bool rows = !axes_of(kernel_, AxisUse::row).empty();
    if (section != SectionId::prologue || plan_.by_partition || !rows) return guard_;
    return conjunction({plan_.row_blocks > 1 ? block_ + " == 0" : "", plan_.groups > 1 ? "group == 0" : ""});
  }

  const tile::Kernel& kernel_;
  const RowsPlan& plan_;
  KernelText text_;
  Lines lines_;
  RowValues values_;
  std::string block_, guard_;
};

}  // namespace

KernelSource emit_rows(const tile::Kernel& kernel, const EntryPoint& entry, const RowsPlan& plan) {
  return RowsWriter(kernel, entry, plan).write();
}

}  // namespace rewire::codegen::cuda
