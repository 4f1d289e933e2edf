// Row kernels as text, level by level; see rows_plan.h for what a level is.
#include "codegen/cuda/rows.h"

#include <algorithm>
#include <set>

#include "codegen/tile/walk.h"
#include "ir/error.h"

namespace rewire::codegen::cuda {
namespace {

using tile::AxisUse;
using tile::Node;
using tile::TileValue;

constexpr std::size_t kLongestInline = 60;  // a longer expression gets a name

std::string plus(const std::string& a, const std::string& b) {
  return a == "0" ? b : a + " + " + b;
}

class RowsWriter {
 public:
  RowsWriter(const tile::Kernel& kernel, const EntryPoint& entry, const RowsPlan& plan)
      : kernel_(kernel), plan_(plan), text_(kernel, entry), texts_(kernel.values.size()) {}

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
  bool full() const { return plan_.lanes % (std::int64_t{plan_.elements()} * plan_.threads) == 0; }
  bool is_block_row() const { return plan_.threads > 32 && plan_.groups == 1; }

  bool has_node(bool (*test)(const Node&)) const {
    for (const Section* section : {&plan_.prologue, &plan_.body, &plan_.epilogue}) {
      for (const LeveledNode& node : section->nodes) {
        if (test(*node.node)) return true;
      }
    }
    return false;
  }

  static bool is_reduce(const Node& node) { return std::holds_alternative<tile::Reduce>(node); }

  bool merges() const { return plan_.by_partition && plan_.groups > 1 && additive(); }
  bool additive() const {
    return std::all_of(plan_.carried.begin(), plan_.carried.end(),
                       [](const CarriedPlan& carried) { return carried.additive.has_value(); });
  }

  std::int64_t shared_bytes() const {
    std::int64_t bytes = is_block_row() && has_node(is_reduce) ? 8 * (plan_.threads / 32) : 0;
    if (!merges()) return bytes;
    for (const tile::Carried& carried : kernel_.carried) {
      const tile::ValueInfo& info = text_.info(carried.entry);
      const std::int64_t elements = info.lanes.empty() ? 1 : plan_.elements();
      bytes = std::max(
          bytes, elements * plan_.block_threads() * static_cast<std::int64_t>(register_bytes(info.dtype)));
    }
    return (bytes + 15) / 16 * 16;
  }

  static std::size_t register_bytes(ir::DType dtype) {
    return dtype == ir::DType::bf16 || dtype == ir::DType::f16 ? 4 : ir::dtype_bytes(dtype);
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

  // --- where a thread stands

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

  /// Rows that do not divide: the last ones are done twice, and written once.
  bool uneven() const {
    if (plan_.by_partition) {
      return merges() && (kernel_.row_count() % kernel_.partitions != 0 ||
                          kernel_.rows_per_partition() % plan_.groups != 0);
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

  /// The one axis that rows are made of gives its name.
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
        lines_.line("{} {} = {};", text_.type(carried.entry), name, start(read(carried.initial).text));
        texts_[static_cast<std::size_t>(carried.entry.id)] = {name};
        texts_[static_cast<std::size_t>(carried.last.id)] = {name};
        continue;
      }
      const Node* initial = definition(carried.initial);
      const auto* constant = initial == nullptr ? nullptr : std::get_if<tile::Constant>(initial);
      if (constant != nullptr && constant->value == 0) {
        lines_.line("{} {}[L::kElements] = {{}};", text_.type(carried.entry), name);
        continue;
      }
      lines_.line("{} {}[L::kElements];", text_.type(carried.entry), name);
      open_elements();
      if (plan_.home(carried.initial).again) declare_lanes();
      lines_.line("{}[e] = {};", name, start(read(carried.initial).text));
      close_elements();
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
    lines_.line("const int first = {}, end = {};", first, end);
    const std::string name = row_name();
    if (!has_reduce_in_body()) lines_.directive("#pragma unroll 4");
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

  bool has_reduce_in_body() const {
    return std::any_of(plan_.body.nodes.begin(), plan_.body.nodes.end(),
                       [](const LeveledNode& node) { return is_reduce(*node.node); });
  }

  /// What is not added in place flows to the next row, all at once: where one value becomes what another was,
  /// that one is kept before it is overwritten, and lanes may repeat a scalar, so they come first.
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
                    kept(carried.next, i) ? before(carried.next) : read(carried.next).text);
      }
    };
    bool any = false;
    for (std::size_t i = 0; i < kernel_.carried.size(); ++i) any = any || flows(i, true);
    if (any) {
      open_elements();
      copy(true, "[e]");
      close_elements();
    }
    copy(false, "");
  }

  void merge() {
    for (std::size_t i = 0; i < kernel_.carried.size(); ++i) {
      const TileValue entry = kernel_.carried[i].entry;
      const char* op = plan_.carried[i].additive == tile::ReduceKind::sum ? "Sum" : "Max";
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
    section_ = id;
    for (int level = 0; level < section.levels; ++level) {
      std::vector<const Node*> nodes;
      for (const LeveledNode& node : section.nodes) {
        if (node.level == level) nodes.push_back(node.node);
      }
      write_level(nodes);
    }
  }

  bool is_scalar(const Node& node) const { return tile::iteration_lanes(kernel_, node).empty(); }

  bool is_row_load(const Node& node) const {
    if (std::holds_alternative<tile::Random>(node)) return !is_scalar(node);
    const auto* load = std::get_if<tile::Load>(&node);
    return load != nullptr && lane_pattern(kernel_, load->access) == LanePattern::contiguous &&
           (!load->index || text_.info(load->index).lanes.empty());
  }
  bool is_row_store(const Node& node) const {
    const auto* store = std::get_if<tile::Store>(&node);
    return store != nullptr && lane_pattern(kernel_, store->access) == LanePattern::contiguous;
  }

  void write_level(const std::vector<const Node*>& nodes) {
    std::vector<const Node*> loop;
    for (const Node* node : nodes) {
      if (is_scalar(*node) && !std::holds_alternative<tile::Store>(*node)) write_scalar(*node);
    }
    for (const Node* node : nodes) {
      if (is_scalar(*node) && std::holds_alternative<tile::Store>(*node))
        write_scalar_store(std::get<tile::Store>(*node));
    }
    for (const Node* node : nodes) {
      if (is_scalar(*node)) continue;
      if (is_row_load(*node)) {
        write_row_load(*node);
      } else if (is_in_loop(*node)) {
        loop.push_back(node);
      }
    }
    if (!loop.empty()) write_loop(loop);
    for (const Node* node : nodes) {
      if (!is_scalar(*node) && is_row_store(*node)) write_row_store(std::get<tile::Store>(*node));
    }
  }

  /// Immediates and index arithmetic appear where they are read.
  bool is_in_loop(const Node& node) const {
    if (is_row_store(node)) return !is_array(std::get<tile::Store>(node).value);
    const TileValue result = tile::result_of(node);
    if (!result) return true;
    return !std::holds_alternative<tile::Constant>(node) && !plan_.home(result).again;
  }

  bool is_array(TileValue value) const { return plan_.home(value).array; }

  // --- reading

  const Node* definition(TileValue value) const {
    for (const auto* section : {&kernel_.prologue, &kernel_.body, &kernel_.epilogue}) {
      for (const Node& node : *section) {
        if (tile::result_of(node) == value) return &node;
      }
    }
    return nullptr;
  }

  Expression read(TileValue value) {
    if (is_array(value)) return {text_.name(value) + "[e]"};
    Expression& known = texts_[static_cast<std::size_t>(value.id)];
    if (!known.text.empty()) return known;
    const Node* node = definition(value);
    if (const auto* constant = std::get_if<tile::Constant>(node)) {
      const std::string text = literal(constant->value, text_.info(value).dtype);
      return {text, text[0] == '-' ? Binding::sign : Binding::value};
    }
    if (const auto* index = std::get_if<tile::Index>(node)) return index_text(*index);
    if (!plan_.home(value).again)
      internal_error("tile kernel {}: %{} is read where it is not known", kernel_.name, value.id);
    known = {text_.name(value)};
    again_.push_back(value);
    const std::string text = pointwise(std::get<tile::Pointwise>(*node)).text;
    lines_.line("const {} {} = {};", text_.type(value), text_.name(value), text);
    return known;
  }

  Expression index_text(const tile::Index& index) {
    const tile::Axis& axis = text_.axis(index.axis);
    if (axis.extent == 1) return {literal(0, text_.info(index.result).dtype)};
    return cast_expression({axis.name}, ir::DType::i32, text_.info(index.result).dtype);
  }

  Expression pointwise(const tile::Pointwise& node) {
    std::vector<Expression> operands;
    std::vector<ir::DType> dtypes;
    for (TileValue operand : node.operands) {
      operands.push_back(read(operand));
      dtypes.push_back(text_.info(operand).dtype);
    }
    return pointwise_expression(node, operands, dtypes, text_.info(node.result).dtype);
  }

  /// Names a value, or leaves its text to its one reader.
  void define(TileValue value, const Expression& text) {
    Expression& known = texts_[static_cast<std::size_t>(value.id)];
    if (is_array(value)) {
      lines_.line("{}[e] = {};", text_.name(value), text.text);
    } else if (plan_.home(value).inlined && text.text.size() <= kLongestInline) {
      known = text;
    } else {
      lines_.line("const {} {} = {};", text_.type(value), text_.name(value), text.text);
      known = {text_.name(value)};
    }
  }

  std::string gathered(const tile::Load& load) {
    return fmt::format("{}clamped({}, {})",
                       load.index_stride == 1 ? "" : fmt::format("{}LL * ", load.index_stride),
                       cast_expression(read(load.index), text_.info(load.index).dtype, ir::DType::i64).text,
                       load.index_limit);
  }

  // --- scalars

  void write_scalar(const Node& node) {
    const TileValue result = tile::result_of(node);
    if (std::holds_alternative<tile::Constant>(node) || std::holds_alternative<tile::Index>(node)) return;
    if (is_added(node)) return write_added(result);
    if (const auto* load = std::get_if<tile::Load>(&node)) {
      std::string index = text_.element_index(load->access);
      if (load->index) index = plus(index, gathered(*load));
      const std::string place = fmt::format("{}[{}]", text_.argument(load->access.argument), index);
      const ir::DType stored = text_.stored(load->access);
      return define(result, loaded(place, stored, text_.info(result).dtype));
    }
    if (const auto* random = std::get_if<tile::Random>(&node))
      return define(result, drawn(*random, text_.element_index(random->element)));
    define(result, pointwise(std::get<tile::Pointwise>(node)));
  }

  Expression loaded(const std::string& place, ir::DType stored, ir::DType dtype) const {
    if (storage_type(stored) == arithmetic_type(dtype)) return {place};
    return {fmt::format("convert<{}>({})", arithmetic_type(dtype), place)};
  }

  Expression drawn(const tile::Random& random, const std::string& element) {
    return {fmt::format("{}(philox({}, {}, {:#x}ull, {}), {})", random.normal ? "normal" : "uniform",
                        read(random.seed).text, read(random.step).text, random.stream, element, element)};
  }

  std::string condition(std::initializer_list<std::string> parts) const {
    std::string text;
    for (const std::string& part : parts) {
      if (!part.empty()) text += (text.empty() ? "" : " && ") + part;
    }
    return text;
  }

  /// Of a prologue whose instance several groups and blocks share, the first alone writes.
  std::string guard() const {
    const bool rows = !axes_of(kernel_, AxisUse::row).empty();
    if (section_ != SectionId::prologue || plan_.by_partition || !rows) return guard_;
    return condition({plan_.row_blocks > 1 ? block_ + " == 0" : "", plan_.groups > 1 ? "group == 0" : ""});
  }

  std::string wanted(const tile::Store& store) {
    return condition({guard(), store.predicate ? read(store.predicate).within(Binding::conjunction) : ""});
  }

  void write_scalar_store(const tile::Store& store) {
    const bool one = plan_.threads == 1 && plan_.lane_blocks == 1;
    const std::string when = condition({one ? "" : "thread == 0", wanted(store)});
    const ir::DType stored = text_.stored(store.access);
    const Expression value = read(store.value);
    const std::string text =
        fmt::format("{}[{}] = {};", text_.argument(store.access.argument), text_.element_index(store.access),
                    to_storage(value, text_.info(store.value).dtype, stored));
    lines_.line("{}{}", when.empty() ? "" : fmt::format("if ({}) ", when), text);
  }

  static std::string to_storage(const Expression& value, ir::DType dtype, ir::DType stored) {
    if (arithmetic_type(dtype) == storage_type(stored)) return value.text;
    return fmt::format("convert<{}>({})", storage_type(stored), value.text);
  }

  // --- whole rows

  void write_row_load(const Node& node) {
    const TileValue result = tile::result_of(node);
    lines_.line("{} {}[L::kElements];", text_.type(result), text_.name(result));
    if (const auto* random = std::get_if<tile::Random>(&node)) return write_row_of_draws(*random);
    const auto& load = std::get<tile::Load>(node);
    std::string pointer = text_.pointer(load.access);
    if (load.index) pointer += " + " + gathered(load);
    lines_.line("load<L, {}>({}, {}, thread);",
                aligned_lanes(kernel_, load.access, load.index ? load.index_stride : 0, plan_.vector),
                text_.name(result), pointer);
  }

  /// A block of four words serves four neighbours, where a row begins with a block.
  void write_row_of_draws(const tile::Random& random) {
    const bool contiguous = lane_pattern(kernel_, random.element) == LanePattern::contiguous;
    const std::string key =
        fmt::format("{}, {}, {:#x}ull", read(random.seed).text, read(random.step).text, random.stream);
    const std::string draw = random.normal ? "normal" : "uniform";
    const std::string& name = text_.name(random.result);
    if (contiguous && plan_.vector == 4 && aligned_lanes(kernel_, random.element, 0, 4) == 4) {
      lines_.directive("#pragma unroll");
      lines_.open("for (int e = 0; e < L::kElements; e += 4)");
      lines_.line("const u64 element = u64({}) + L::lane(e, thread);", text_.outer_index(random.element));
      lines_.line("const PhiloxBlock words = philox({}, element);", key);
      lines_.directive("#pragma unroll");
      lines_.line("for (int k = 0; k < 4; ++k) {}[e + k] = {}(words, element + k);", name, draw);
      lines_.close();
      return;
    }
    open_elements();
    declare_lanes();
    lines_.line("const u64 element = {};", text_.element_index(random.element));
    lines_.line("{}[e] = {}(philox({}, element), element);", name, draw, key);
    close_elements();
  }

  void write_row_store(const tile::Store& store) {
    const std::string value = is_array(store.value) ? text_.name(store.value) : row_name_of(store);
    const std::string when = wanted(store);
    lines_.line("store<L, {}>({}, {}, thread{});", aligned_lanes(kernel_, store.access, 0, plan_.vector),
                text_.pointer(store.access), value, when.empty() ? "" : ", " + when);
  }

  std::string row_name_of(const tile::Store& store) const {
    return fmt::format("{}_row{}", text_.argument(store.access.argument), store.value.id);
  }

  // --- the loop over a thread's elements

  void open_elements() {
    lines_.directive("#pragma unroll");
    lines_.open("for (int e = 0; e < L::kElements; ++e)");
  }
  void close_elements() {
    lines_.close();
    for (TileValue value : again_) texts_[static_cast<std::size_t>(value.id)] = {};
    again_.clear();
  }

  void declare_lanes() {
    std::string name;
    int axes = 0;
    for (std::int32_t axis : plan_.lane_axes) {
      if (text_.axis(axis).extent == 1) continue;
      ++axes;
      name = text_.axis(axis).name;
    }
    if (axes == 0) return;
    lines_.line("const int {} = L::lane(e, thread);", axes == 1 ? name : "lane");
    if (axes > 1) text_.declare_indices(lines_, AxisUse::lane, "lane");
  }

  /// Whether the loop needs to know which lane an element is.
  bool needs_lanes(const std::vector<const Node*>& nodes) const {
    return std::any_of(nodes.begin(), nodes.end(), [&](const Node* node) {
      if (std::holds_alternative<tile::Load>(*node)) return true;
      if (std::holds_alternative<tile::Store>(*node) && !is_row_store(*node)) return true;
      const std::vector<TileValue> operands = tile::operands_of(*node);
      return std::any_of(operands.begin(), operands.end(), [&](TileValue operand) {
        return plan_.home(operand).lane && plan_.home(operand).again;
      });
    });
  }

  void write_loop(const std::vector<const Node*>& nodes) {
    declare_results(nodes);
    open_elements();
    if (needs_lanes(nodes)) declare_lanes();
    for (const Node* node : nodes) write_element(*node);
    close_elements();
    for (const Node* node : nodes) {
      if (is_reduce(*node)) finish_reduction(std::get<tile::Reduce>(*node));
    }
  }

  void declare_results(const std::vector<const Node*>& nodes) {
    for (const Node* node : nodes) {
      if (const auto* reduce = std::get_if<tile::Reduce>(node)) {
        lines_.line("{} {} = {};", text_.type(reduce->result), text_.name(reduce->result),
                    reduction_start(reduce->kind, text_.info(reduce->result).dtype));
      } else if (const auto* store = std::get_if<tile::Store>(node)) {
        if (is_row_store(*node))
          lines_.line("{} {}[L::kElements];", text_.type(store->value), row_name_of(*store));
      } else if (is_array(tile::result_of(*node))) {
        lines_.line("{} {}[L::kElements];", text_.type(tile::result_of(*node)),
                    text_.name(tile::result_of(*node)));
      }
    }
  }

  bool is_added(const Node& node) const {
    return std::any_of(plan_.carried.begin(), plan_.carried.end(),
                       [&](const CarriedPlan& carried) { return carried.next == &node; });
  }

  /// next = entry + value, in place.
  void write_added(TileValue next) {
    for (std::size_t i = 0; i < plan_.carried.size(); ++i) {
      const tile::Carried& carried = kernel_.carried[i];
      if (carried.next != next) continue;
      const bool scalar = text_.info(carried.entry).lanes.empty();
      const std::string target = text_.name(carried.entry) + (scalar ? "" : "[e]");
      const std::string sum = accumulate(*plan_.carried[i].additive, text_.info(next).dtype, target,
                                         read(plan_.carried[i].added));
      lines_.line("{}{};", guard_ == "active" ? "if (active) " : "", sum);
    }
  }

  void write_element(const Node& node) {
    if (is_added(node)) return write_added(tile::result_of(node));
    if (const auto* reduce = std::get_if<tile::Reduce>(&node)) return write_partial(*reduce);
    if (const auto* store = std::get_if<tile::Store>(&node)) return write_element_store(*store, node);
    if (const auto* load = std::get_if<tile::Load>(&node)) return write_element_load(*load);
    define(tile::result_of(node), pointwise(std::get<tile::Pointwise>(node)));
  }

  void write_partial(const tile::Reduce& reduce) {
    const std::string& name = text_.name(reduce.result);
    const std::string sum =
        accumulate(reduce.kind, text_.info(reduce.result).dtype, name, read(reduce.operand));
    lines_.line("{}{};", full() ? "" : "if (L::holds(e, thread)) ", sum);
  }

  void finish_reduction(const tile::Reduce& reduce) {
    const std::string& name = text_.name(reduce.result);
    const char* op = reduce.kind == tile::ReduceKind::sum ? "Sum" : "Max";
    if (is_block_row()) {
      lines_.line("{0} = over_block<{1}, {2}>({0}, shared);", name, op, plan_.threads);
    } else if (plan_.threads > 1) {
      lines_.line("{0} = over_threads<{1}, {2}>({0});", name, op, plan_.threads);
    }
    texts_[static_cast<std::size_t>(reduce.result.id)] = {name};
  }

  void write_element_load(const tile::Load& load) {
    std::string index = text_.element_index(load.access);
    if (load.index) index = plus(index, gathered(load));
    const std::string place = fmt::format("{}[{}]", text_.argument(load.access.argument), index);
    const ir::DType dtype = text_.info(load.result).dtype;
    Expression value = loaded(place, text_.stored(load.access), dtype);
    if (!full())
      value = {fmt::format("L::holds(e, thread) ? {} : {}", value.text, literal(0, dtype)),
               Binding::condition};
    define(load.result, value);
  }

  void write_element_store(const tile::Store& store, const Node& node) {
    const ir::DType dtype = text_.info(store.value).dtype;
    if (is_row_store(node)) {
      lines_.line("{}[e] = {};", row_name_of(store), read(store.value).text);
      return;
    }
    std::string repeated;  // lanes that the access does not know: the first of them writes
    for (std::int32_t axis : plan_.lane_axes) {
      if (store.access.strides[static_cast<std::size_t>(axis)] == 0 && text_.axis(axis).extent > 1)
        repeated += fmt::format("{}{} == 0", repeated.empty() ? "" : " && ", text_.axis(axis).name);
    }
    const std::string when = condition({full() ? "" : "L::holds(e, thread)", repeated, wanted(store)});
    const Expression value = read(store.value);
    lines_.line("{}{}[{}] = {};", when.empty() ? "" : fmt::format("if ({}) ", when),
                text_.argument(store.access.argument), text_.element_index(store.access),
                to_storage(value, dtype, text_.stored(store.access)));
  }

  const tile::Kernel& kernel_;
  const RowsPlan& plan_;
  KernelText text_;
  Lines lines_;
  std::vector<Expression> texts_;  // by value: how it is read, where it is no array
  std::vector<TileValue> again_;   // defined in the loop that is open
  std::string block_, guard_;
  SectionId section_ = SectionId::prologue;
};

}  // namespace

KernelSource emit_rows(const tile::Kernel& kernel, const EntryPoint& entry, const RowsPlan& plan) {
  return RowsWriter(kernel, entry, plan).write();
}

}  // namespace rewire::codegen::cuda
