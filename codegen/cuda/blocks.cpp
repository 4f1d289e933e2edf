// Block kernels as text, step by step; see blocks_plan.h.
#include "codegen/cuda/blocks.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "codegen/tile/walk.h"
#include "ir/error.h"

namespace rewire::codegen::cuda {
namespace {

using tile::AxisUse;
using tile::Node;
using tile::TileValue;
using Lanes = std::vector<std::int32_t>;

constexpr std::int64_t kWarpReduction = 16;  // fewer elements are added by one thread

class BlockWriter {
 public:
  BlockWriter(const tile::Kernel& kernel, const EntryPoint& entry, const BlockPlan& plan)
      : kernel_(kernel), plan_(plan), text_(kernel, entry) {}

  KernelSource write() {
    const bool rows = !axes_of(kernel_, AxisUse::row).empty();
    const std::int64_t walkers = !rows ? 1 : plan_.by_partition ? kernel_.partitions : kernel_.row_count();
    const std::int64_t outer = extent_of(kernel_, axes_of(kernel_, AxisUse::outer));
    LaunchShape launch{outer * walkers, plan_.threads, plan_.shared_bytes};
    text_.head(lines_, launch, plan_.resident_blocks,
               plan_.by_partition ? "a block walks a part's rows" : "a block an instance");
    lines_.indent(1);
    lines_.line("REWIRE_SHARED(shared);");
    declare_arrays();
    declare_places(outer, walkers);
    write_steps(plan_.prologue);
    if (rows && plan_.by_partition) {
      write_rows();
    } else {
      write_steps(plan_.body);
    }
    write_steps(plan_.epilogue);
    text_.foot(lines_);
    return {text_.symbol(), lines_.take(), launch};
  }

 private:
  // --- places

  void declare_arrays() {
    for (std::size_t id = 0; id < plan_.values.size(); ++id) {
      const TileValue value{static_cast<std::int32_t>(id)};
      const BlockValue& own = plan_.value(value);
      if (own.array < 0 || (own.node == nullptr && !is_entry(value))) continue;
      const SharedArray& array = plan_.arrays[static_cast<std::size_t>(own.array)];
      std::string shape;
      for (std::int32_t lane : array.lanes) {
        const std::int64_t extent = lane == array.lanes.back() ? array.pitch : text_.axis(lane).extent;
        shape += fmt::format("[{}]", extent);
      }
      lines_.line("{0}* const {1} = reinterpret_cast<{0}*>(shared + {2});  // {3}",
                  array.narrow ? storage_type(ir::DType::bf16) : arithmetic_type(array.dtype),
                  text_.name(value), array.offset, shape);
    }
  }

  bool is_entry(TileValue value) const {
    return std::any_of(kernel_.carried.begin(), kernel_.carried.end(),
                       [&](const tile::Carried& carried) { return carried.entry == value; });
  }

  void declare_places(std::int64_t outer, std::int64_t walkers) {
    const auto declare = [&](AxisUse use, const std::string& index, std::int64_t count) {
      if (count == 1) return;
      std::string name;
      int axes = 0;
      for (std::int32_t axis : axes_of(kernel_, use)) {
        if (text_.axis(axis).extent == 1) continue;
        ++axes;
        name = text_.axis(axis).name;
      }
      if (axes != 1) name = use == AxisUse::outer ? "outer" : "row";
      lines_.line("const int {} = {};", name, index);
      text_.declare_indices(lines_, use, name);
    };
    declare(AxisUse::outer, walkers == 1 ? "int(blockIdx.x)" : fmt::format("int(blockIdx.x) / {}", walkers),
            outer);
    const std::string walker = outer == 1 ? "int(blockIdx.x)" : fmt::format("int(blockIdx.x) % {}", walkers);
    if (plan_.by_partition) {
      if (kernel_.partitions > 1) lines_.line("const int part = {};", walker);
    } else {
      declare(AxisUse::row, walker, kernel_.row_count());
    }
  }

  void write_rows() {
    start_carried();
    order_all();
    const std::int64_t rows = kernel_.rows_per_partition();
    if (kernel_.partitions == 1) {
      lines_.open("for (int row = 0; row < {}; ++row)", rows);
    } else {
      lines_.open("for (int row = part * {0}; row < minimum((part + 1) * {0}, {1}); ++row)", rows,
                  kernel_.row_count());
    }
    text_.declare_indices(lines_, AxisUse::row, "row");
    write_steps(plan_.body);
    carry();
    order_all();
    lines_.close();
  }

  void start_carried() {
    order_all();
    for (std::size_t i = 0; i < kernel_.carried.size(); ++i) {
      const tile::Carried& carried = kernel_.carried[i];
      if (plan_.carried_arrays[i] < 0) {
        lines_.line("{} {} = {};", text_.type(carried.entry), text_.name(carried.entry),
                    read(carried.initial).text);
        continue;
      }
      open_points(text_.info(carried.entry).lanes);
      lines_.line("{} = {};", place(carried.entry), read(carried.initial).text);
      close_points();
      barrier();
    }
  }

  /// All at once: every value of the same lanes is read before one of them is written, since one may become
  /// what another was; those of more lanes come first, since they may repeat what has fewer.
  void carry() {
    std::map<std::pair<std::size_t, Lanes>, std::vector<const tile::Carried*>, std::greater<>> by_lanes;
    for (const tile::Carried& carried : kernel_.carried) {
      const Lanes& lanes = text_.info(carried.entry).lanes;
      by_lanes[{lanes.size(), lanes}].push_back(&carried);
    }
    for (const auto& [key, group] : by_lanes) {
      const bool scalars = key.second.empty();
      if (!scalars) {
        order_all();
        open_points(key.second);
      }
      std::vector<std::string> texts;
      for (const tile::Carried* carried : group) {
        texts.push_back(read(carried->next).text);
        if (group.size() == 1) continue;
        const std::string next = text_.name(carried->entry) + "_next";
        lines_.line("const {} {} = {};", text_.type(carried->entry), next, texts.back());
        texts.back() = next;
      }
      for (std::size_t i = 0; i < group.size(); ++i) {
        lines_.line("{} = {};", scalars ? text_.name(group[i]->entry) : place(group[i]->entry), texts[i]);
      }
      if (!scalars) {
        close_points();
        barrier();
      }
    }
  }

  // --- order

  void barrier() {
    lines_.line("__syncthreads();");
    read_.clear();
    written_.clear();
    touched_.clear();
  }
  /// Before what is not a step of its own.
  void order_all() {
    if (!read_.empty() || !written_.empty() || !touched_.empty()) barrier();
  }

  /// A barrier before a step that reads or writes shared memory which another thread may have yet to write,
  /// or to read, since the last one.
  void order_before(const BlockStep& step) {
    std::vector<Span> reads, writes;
    std::set<std::int32_t> touches;
    for (const Node* node : step.nodes) {
      for (TileValue operand : tile::operands_of(*node)) add_reads(operand, reads);
      const TileValue result = tile::result_of(*node);
      if (result && plan_.value(result).home == BlockHome::shared) writes.push_back(span(result));
      const tile::Access* access = tile::access_of(*node);
      if (access == nullptr || std::holds_alternative<tile::Random>(*node)) continue;
      if (kernel_.arguments[static_cast<std::size_t>(access->argument)].use != tile::ArgumentUse::read)
        touches.insert(access->argument);
    }
    const auto meet = [](const std::vector<Span>& these, const std::vector<Span>& those) {
      return std::any_of(these.begin(), these.end(), [&](const Span& a) {
        return std::any_of(those.begin(), those.end(),
                           [&](const Span& b) { return a.begin < b.end && b.begin < a.end; });
      });
    };
    const bool touched = std::any_of(touches.begin(), touches.end(),
                                     [&](std::int32_t argument) { return touched_.contains(argument); });
    if (touched || meet(reads, written_) || meet(writes, written_) || meet(writes, read_)) barrier();
    read_.insert(read_.end(), reads.begin(), reads.end());
    written_.insert(written_.end(), writes.begin(), writes.end());
    touched_.merge(touches);
  }

  struct Span {
    std::int64_t begin = 0, end = 0;  // bytes of shared memory
  };

  Span span(TileValue value) const {
    const SharedArray& array = array_of(value);
    return {array.offset, array.offset + array.bytes};
  }

  void add_reads(TileValue operand, std::vector<Span>& reads) const {
    const BlockValue& own = plan_.value(operand);
    if (own.home == BlockHome::shared) reads.push_back(span(operand));
    if (own.home != BlockHome::again) return;
    for (TileValue inner : tile::operands_of(*own.node)) add_reads(inner, reads);
  }

  // --- reading

  const SharedArray& array_of(TileValue value) const {
    return plan_.arrays[static_cast<std::size_t>(plan_.value(value).array)];
  }

  /// An element of a shared array at the lane variables in scope.
  std::string place(TileValue value) const {
    const SharedArray& array = array_of(value);
    Terms terms;
    std::int64_t stride = 1;
    for (std::size_t i = array.lanes.size(); i-- > 0;) {
      const tile::Axis& axis = text_.axis(array.lanes[i]);
      if (axis.extent > 1) terms.products.insert(terms.products.begin(), {stride, axis.name});
      stride *= i + 1 == array.lanes.size() ? array.pitch : axis.extent;
    }
    return fmt::format("{}[{}]", text_.name(value), terms.text(false));
  }

  Expression read(TileValue value) {
    if (const auto held = held_.find(value.id); held != held_.end()) return {held->second};
    const BlockValue& own = plan_.value(value);
    if (own.home == BlockHome::shared)
      return {array_of(value).narrow ? fmt::format("convert<float>({})", place(value)) : place(value)};
    if (own.home == BlockHome::immediate) return immediate(*own.node);
    if (own.home == BlockHome::again && scope_.insert(value.id).second) {
      const std::string text = computed(*own.node).text;
      lines_.line("const {} {} = {};", text_.type(value), text_.name(value), text);
    }
    return {text_.name(value)};
  }

  /// Writes an element of a shared array.
  void put(TileValue value, const std::string& text) {
    lines_.line("{} = {};", place(value),
                array_of(value).narrow ? fmt::format("convert<bf16>({})", text) : text);
  }

  Expression immediate(const Node& node) const {
    if (const auto* constant = std::get_if<tile::Constant>(&node)) {
      const std::string text = literal(constant->value, text_.info(constant->result).dtype);
      return {text, text[0] == '-' ? Binding::sign : Binding::value};
    }
    const auto& index = std::get<tile::Index>(node);
    const ir::DType dtype = text_.info(index.result).dtype;
    const tile::Axis& axis = text_.axis(index.axis);
    if (axis.extent == 1) return {literal(0, dtype)};
    return cast_expression({axis.name}, ir::DType::i32, dtype);
  }

  Expression computed(const Node& node) {
    if (const auto* load = std::get_if<tile::Load>(&node)) return loaded(*load);
    if (const auto* random = std::get_if<tile::Random>(&node)) return drawn(*random);
    const auto* op = std::get_if<tile::Pointwise>(&node);
    if (op == nullptr)
      internal_error("tile kernel {}: a {} has no CUDA code here", kernel_.name, tile::node_word(node));
    std::vector<Expression> operands;
    std::vector<ir::DType> dtypes;
    for (TileValue operand : op->operands) {
      operands.push_back(read(operand));
      dtypes.push_back(text_.info(operand).dtype);
    }
    return pointwise_expression(*op, operands, dtypes, text_.info(op->result).dtype);
  }

  Expression loaded(const tile::Load& load) {
    std::string index = text_.element_index(load.access);
    if (load.index) {
      const Expression at = cast_expression(read(load.index), text_.info(load.index).dtype, ir::DType::i64);
      index += fmt::format(" + {}clamped({}, {})",
                           load.index_stride == 1 ? "" : fmt::format("{}LL * ", load.index_stride), at.text,
                           load.index_limit);
    }
    const std::string element = fmt::format("{}[{}]", text_.argument(load.access.argument), index);
    const ir::DType dtype = text_.info(load.result).dtype;
    if (storage_type(text_.stored(load.access)) == arithmetic_type(dtype)) return {element};
    return {fmt::format("convert<{}>({})", arithmetic_type(dtype), element)};
  }

  Expression drawn(const tile::Random& random) {
    const std::string element = text_.element_index(random.element);
    return {fmt::format("{}(philox({}, {}, {:#x}ull, {}), {})", random.normal ? "normal" : "uniform",
                        read(random.seed).text, read(random.step).text, random.stream, element, element)};
  }

  // --- steps

  void write_steps(const std::vector<BlockStep>& steps) {
    for (const BlockStep& step : steps) {
      order_before(step);
      switch (step.kind) {
        case StepKind::scalars:
          write_scalars(step);
          break;
        case StepKind::loop:
          write_loop(step);
          break;
        case StepKind::reduce:
          step.lanes.empty() ? write_whole_reduction(step) : write_reduction(step);
          break;
        case StepKind::dot:
          write_dot(std::get<tile::Dot>(*step.nodes[0]));
          break;
        case StepKind::tensor_dot:
          write_tensor_dot(step);
          break;
      }
    }
  }

  void write_scalars(const BlockStep& step) {
    for (const Node* node : step.nodes) {
      if (const auto* store = std::get_if<tile::Store>(node)) {
        write_store(*store, "threadIdx.x == 0");
      } else {
        const TileValue result = tile::result_of(*node);
        const std::string text = computed(*node).text;
        lines_.line("const {} {} = {};", text_.type(result), text_.name(result), text);
      }
    }
  }

  std::int64_t points(const Lanes& lanes) const { return extent_of(kernel_, lanes); }

  /// Declares the lane variables of a row-major index over `lanes`.
  void declare_lanes(const Lanes& lanes, const std::string& linear) {
    std::int64_t below = points(lanes);
    const std::int64_t all = below;
    for (std::int32_t lane : lanes) {
      const tile::Axis& axis = text_.axis(lane);
      below /= axis.extent;
      if (axis.extent == 1) continue;
      std::string text = linear;
      if (below > 1) text += fmt::format(" / {}", below);
      if (below * axis.extent != all) text += fmt::format(" % {}", axis.extent);
      lines_.line("const int {} = {};", axis.name, text);
    }
  }

  void open_points(const Lanes& lanes) {
    scope_.clear();
    lines_.open("for (int at = int(threadIdx.x); at < {}; at += {})", points(lanes), plan_.threads);
    declare_lanes(lanes, "at");
  }
  void close_points() {
    lines_.close();
    scope_.clear();
  }

  void write_loop(const BlockStep& step) {
    if (write_copies(step)) return;
    open_points(step.lanes);
    for (const Node* node : step.nodes) {
      if (const auto* store = std::get_if<tile::Store>(node)) {
        write_store(*store, repeated(*store, step.lanes));
        continue;
      }
      const TileValue result = tile::result_of(*node);
      const std::string text = computed(*node).text;
      if (plan_.value(result).home == BlockHome::shared) {
        put(result, text);
      } else {
        lines_.line("const {} {} = {};", text_.type(result), text_.name(result), text);
      }
    }
    close_points();
  }

  /// Lanes that an access does not know: the first of them writes.
  std::string repeated(const tile::Store& store, const Lanes& lanes) const {
    std::string text;
    for (std::int32_t lane : lanes) {
      if (store.access.strides[static_cast<std::size_t>(lane)] == 0 && text_.axis(lane).extent > 1)
        text += fmt::format("{}{} == 0", text.empty() ? "" : " && ", text_.axis(lane).name);
    }
    return text;
  }

  void write_store(const tile::Store& store, std::string when) {
    if (store.predicate)
      when += (when.empty() ? "" : " && ") + read(store.predicate).within(Binding::conjunction);
    const ir::DType stored = text_.stored(store.access);
    const Expression value = read(store.value);
    const bool same = arithmetic_type(text_.info(store.value).dtype) == storage_type(stored);
    lines_.line("{}{}[{}] = {};", when.empty() ? "" : fmt::format("if ({}) ", when),
                text_.argument(store.access.argument), text_.element_index(store.access),
                same ? value.text : fmt::format("convert<{}>({})", storage_type(stored), value.text));
  }

  // --- reductions

  static const char* op_name(const tile::Reduce& reduce) {
    return reduce.kind == tile::ReduceKind::sum ? "Sum" : "Max";
  }

  void start_reductions(const BlockStep& step, const std::string& suffix) {
    for (const Node* node : step.nodes) {
      const auto& reduce = std::get<tile::Reduce>(*node);
      lines_.line("{} {}{} = {};", text_.type(reduce.result), text_.name(reduce.result), suffix,
                  reduction_start(reduce.kind, text_.info(reduce.result).dtype));
    }
  }

  void add_reductions(const BlockStep& step, const std::string& suffix) {
    for (const Node* node : step.nodes) {
      const auto& reduce = std::get<tile::Reduce>(*node);
      const std::string name = text_.name(reduce.result) + suffix;
      const ir::DType dtype = text_.info(reduce.result).dtype;
      lines_.line("{};", accumulate(reduce.kind, dtype, name, read(reduce.operand)));
    }
  }

  /// To one scalar, known to every thread.
  void write_whole_reduction(const BlockStep& step) {
    start_reductions(step, "");
    scope_.clear();
    lines_.open("for (int at = int(threadIdx.x); at < {}; at += {})", points(step.reduced), plan_.threads);
    declare_lanes(step.reduced, "at");
    add_reductions(step, "");
    lines_.close();
    scope_.clear();
    for (const Node* node : step.nodes) {
      const auto& reduce = std::get<tile::Reduce>(*node);
      lines_.line("{0} = over_block<{1}, {2}>({0}, shared);", text_.name(reduce.result), op_name(reduce),
                  plan_.threads);
    }
    order_all();  // its scratch is read until then
  }

  /// One result a warp, or a thread where there is little to add.
  void write_reduction(const BlockStep& step) {
    const bool warp = points(step.reduced) >= kWarpReduction;
    const std::string suffix = "_sum";
    scope_.clear();
    if (warp) {
      lines_.open("for (int at = int(threadIdx.x) / 32; at < {}; at += {})", points(step.lanes),
                  plan_.threads / 32);
    } else {
      lines_.open("for (int at = int(threadIdx.x); at < {}; at += {})", points(step.lanes), plan_.threads);
    }
    declare_lanes(step.lanes, "at");
    start_reductions(step, suffix);
    lines_.open("for (int with = {}; with < {}; with += {})", warp ? "int(threadIdx.x) % 32" : "0",
                points(step.reduced), warp ? 32 : 1);
    declare_lanes(step.reduced, "with");
    add_reductions(step, suffix);
    lines_.close();
    for (const Node* node : step.nodes) {
      const auto& reduce = std::get<tile::Reduce>(*node);
      const std::string name = text_.name(reduce.result) + suffix;
      if (warp) {
        lines_.line("{0} = over_threads<{1}, 32>({0});", name, op_name(reduce));
        lines_.line("if (threadIdx.x % 32 == 0) {} = {};", place(reduce.result), name);
      } else {
        lines_.line("{} = {};", place(reduce.result), name);
      }
    }
    close_points();
  }

  // --- dots

  struct DotOperand {
    std::string pointer;
    std::int64_t contract = 0, other = 0;  // strides
  };

  DotOperand operand(TileValue value, std::int32_t contract) {
    const BlockValue& own = plan_.value(value);
    const Lanes& lanes = text_.info(value).lanes;
    if (own.home != BlockHome::shared) {
      const auto& load = std::get<tile::Load>(*own.node);
      const auto stride = [&](std::int32_t lane) {
        return load.access.strides[static_cast<std::size_t>(lane)];
      };
      if (lanes.size() != 2) unsupported(value);
      return {text_.pointer(load.access), stride(contract),
              stride(lanes[0] == contract ? lanes[1] : lanes[0])};
    }
    const SharedArray& array = plan_.arrays[static_cast<std::size_t>(own.array)];
    if (lanes.back() == contract) return {text_.name(value), 1, array.pitch};
    if (lanes.front() != contract) unsupported(value);
    std::int64_t below = array.pitch;
    for (std::size_t i = 1; i + 1 < lanes.size(); ++i) below *= text_.axis(lanes[i]).extent;
    return {text_.name(value), below, 1};
  }

  [[noreturn]] void unsupported(TileValue value) const {
    internal_error("tile kernel {}: %{} cannot be an operand of a dot in CUDA", kernel_.name, value.id);
  }

  /// c [a's lanes, b's lane] = a b, or its transpose where b's lane comes first.
  void write_dot(const tile::Dot& dot) {
    const Lanes& lanes = text_.info(dot.result).lanes;
    const Lanes& right = text_.info(dot.b).lanes;
    const std::int32_t column = right[0] == dot.contract ? right[1] : right[0];
    const SharedArray& c = plan_.arrays[static_cast<std::size_t>(plan_.value(dot.result).array)];
    const std::int64_t columns = text_.axis(column).extent;
    const std::int64_t rows = points(lanes) / columns;
    if (lanes.back() != column && lanes.front() != column) unsupported(dot.result);
    const bool last = lanes.back() == column;
    if (!last && lanes.size() != 2) unsupported(dot.result);
    const DotOperand a = operand(dot.a, dot.contract), b = operand(dot.b, dot.contract);
    lines_.line("// {} = sum over {} of {} {}", text_.name(dot.result), text_.axis(dot.contract).name,
                text_.name(dot.a), text_.name(dot.b));
    lines_.line("dot<{}, {}, {}, {}, Strides<{}, {}>, Strides<{}, {}>, Strides<{}, {}>>({}, {}, {});", rows,
                columns, text_.axis(dot.contract).extent, plan_.threads, a.other, a.contract, b.contract,
                b.other, last ? c.pitch : 1, last ? 1 : c.pitch, text_.name(dot.result), a.pointer,
                b.pointer);
  }

  // --- products on tensor cores

  /// A step of nothing but loads into arrays as they lie in memory: packets of neighbours.
  bool write_copies(const BlockStep& step) {
    std::vector<std::string> copies;
    for (const Node* node : step.nodes) {
      const auto* load = std::get_if<tile::Load>(node);
      const std::int64_t packet = load == nullptr ? 0 : packet_of(*load);
      if (packet == 0) return false;
      const Lanes& lanes = text_.info(load->result).lanes;
      copies.push_back(fmt::format("copy_rows<{}, {}, {}, {}, {}, {}>({}, {});", text_.axis(lanes[0]).extent,
                                   text_.axis(lanes[1]).extent,
                                   load->access.strides[static_cast<std::size_t>(lanes[0])],
                                   array_of(load->result).pitch, packet, plan_.threads,
                                   text_.name(load->result), text_.pointer(load->access)));
    }
    for (const std::string& copy : copies) lines_.line("{}", copy);
    return true;
  }

  /// How many neighbours of a narrow array a copy moves at once; 0: it is no copy.
  std::int64_t packet_of(const tile::Load& load) const {
    const BlockValue& own = plan_.value(load.result);
    if (load.index || own.home != BlockHome::shared || !array_of(load.result).narrow) return 0;
    return packet_of(load.access, text_.info(load.result).lanes[1]);
  }

  /// How many neighbours along `lane` lie as a packet that is aligned to its size: 8 at most; 0: none.
  std::int64_t packet_of(const tile::Access& access, std::int32_t lane) const {
    if (access.strides[static_cast<std::size_t>(lane)] != 1 || text_.wide(access)) return 0;
    std::int64_t packet = std::gcd(std::int64_t{8}, text_.axis(lane).extent);
    packet = std::gcd(packet, std::gcd(access.offset, access.part_stride));
    for (std::size_t axis = 0; axis < access.strides.size(); ++axis) {
      if (static_cast<std::int32_t>(axis) != lane) packet = std::gcd(packet, access.strides[axis]);
    }
    return packet;
  }

  std::string narrow_operand(TileValue value, std::int32_t contract) const {
    const SharedArray& array = array_of(value);
    const bool down = array.lanes[0] == contract;
    return fmt::format("Narrow<{}, {}, {}, {}>{{{}}}", text_.axis(array.lanes[down ? 1 : 0]).extent,
                       text_.axis(contract).extent, array.pitch, down, text_.name(value));
  }

  /// What runs over the elements of a tile of products: a pass ends where a sum over rows must be known.
  struct Pass {
    std::vector<const Node*> nodes;
    std::vector<const tile::Reduce*> reduces;
    std::vector<TileValue> kept;  // computed here, read in a later pass
  };

  std::vector<Pass> passes_of(const BlockStep& step) const {
    std::map<std::int32_t, std::size_t> known;  // values of the step: the first pass that can read them
    std::map<std::int32_t, std::size_t> computed_in;
    std::set<std::int32_t> kept;
    std::vector<Pass> passes(1);
    for (const Node* node : step.nodes) {
      const TileValue result = tile::result_of(*node);
      if (std::holds_alternative<tile::Dot>(*node)) {
        known[result.id] = 0;
        continue;
      }
      std::vector<TileValue> leaves;
      for (TileValue operand : tile::operands_of(*node)) add_leaves(operand, leaves);
      std::size_t pass = 0;
      for (TileValue leaf : leaves) {
        if (known.contains(leaf.id)) pass = std::max(pass, known[leaf.id]);
      }
      for (TileValue leaf : leaves) {
        if (computed_in.contains(leaf.id) && computed_in[leaf.id] < pass) kept.insert(leaf.id);
      }
      passes.resize(std::max(passes.size(), pass + 1));
      if (const auto* reduce = std::get_if<tile::Reduce>(node)) {
        passes[pass].reduces.push_back(reduce);
        known[result.id] = pass + 1;
        continue;
      }
      passes[pass].nodes.push_back(node);
      if (result) known[result.id] = computed_in[result.id] = pass;
    }
    for (const auto& [id, pass] : computed_in) {
      if (kept.contains(id) || puts_tile({id}, step)) passes[pass].kept.push_back({id});
    }
    return passes;
  }

  void add_leaves(TileValue value, std::vector<TileValue>& leaves) const {
    const BlockValue& own = plan_.value(value);
    if (own.home != BlockHome::again) return leaves.push_back(value);
    for (TileValue inner : tile::operands_of(*own.node)) add_leaves(inner, leaves);
  }

  void write_tensor_dot(const BlockStep& step) {
    const std::int64_t rows = text_.axis(step.row).extent, columns = text_.axis(step.column).extent;
    const std::int64_t elements = 4 * step.width;
    const std::int64_t down = (rows + 15) / 16, right = (columns + 8 * step.width - 1) / (8 * step.width);
    lines_.open("for (int tile = int(threadIdx.x) / 32; tile < {}; tile += {})", down * right,
                plan_.threads / 32);
    lines_.line("const int down = {};", right == 1 ? "tile * 16" : fmt::format("tile / {} * 16", right));
    if (right > 1) lines_.line("const int right = tile % {} * {};", right, 8 * step.width);
    for (const Node* node : step.nodes) {
      const auto* dot = std::get_if<tile::Dot>(node);
      if (dot == nullptr) continue;
      const std::string name = text_.name(dot->result) + "_tile";
      lines_.line("float {}[{}];  // sum over {} of {} {}", name, elements, text_.axis(dot->contract).name,
                  text_.name(dot->a), text_.name(dot->b));
      lines_.line("multiply<{}>({}, {}, {}, down, {});", step.width, name,
                  narrow_operand(dot->a, dot->contract), narrow_operand(dot->b, dot->contract),
                  right > 1 ? "right" : "0");
      held_[dot->result.id] = name + "[e]";
    }
    const std::vector<Pass> passes = passes_of(step);
    for (const Pass& pass : passes) write_pass(step, pass, &pass == &passes.front());
    lines_.close();
    held_.clear();
  }

  void write_pass(const BlockStep& step, const Pass& pass, bool first) {
    const std::int64_t elements = 4 * step.width;
    for (const tile::Reduce* reduce : pass.reduces) {
      const std::string start = reduction_start(reduce->kind, text_.info(reduce->result).dtype);
      lines_.line("{} {}_rows[2] = {{{}, {}}};", text_.type(reduce->result), text_.name(reduce->result),
                  start, start);
    }
    for (TileValue kept : pass.kept)
      lines_.line("{} {}_tile[{}] = {{}};", text_.type(kept), text_.name(kept), elements);
    for (const Node* node : pass.nodes) {
      const auto* store = std::get_if<tile::Store>(node);
      if (store != nullptr && stores_tile(*store, step))
        lines_.line("float {}_tile[{}] = {{}};", text_.argument(store->access.argument), elements);
    }
    open_elements(step);
    for (const tile::TileValue value : dots_stored(step, first)) put(value, held_.at(value.id));
    for (const Node* node : pass.nodes) write_element(*node, step, pass);
    for (const tile::Reduce* reduce : pass.reduces) {
      const std::string name = text_.name(reduce->result) + "_rows[e % 4 / 2]";
      lines_.line("{};",
                  accumulate(reduce->kind, text_.info(reduce->result).dtype, name, read(reduce->operand)));
    }
    close_elements();
    for (const Node* node : pass.nodes) {
      const TileValue result = tile::result_of(*node);
      if (result) held_.erase(result.id);
    }
    for (const Node* node : pass.nodes) write_tile(*node, step);
    for (TileValue kept : pass.kept) held_[kept.id] = text_.name(kept) + "_tile[e]";
    for (const tile::Reduce* reduce : pass.reduces) write_row_results(step, *reduce);
  }

  /// Opens a loop over the elements of a tile that lie within the product.
  void open_elements(const BlockStep& step) {
    const tile::Axis& row = text_.axis(step.row);
    const tile::Axis& column = text_.axis(step.column);
    const bool all_columns = column.extent <= 8 * step.width;
    scope_.clear();
    lines_.directive("#pragma unroll");
    lines_.open("for (int e = 0; e < {}; ++e)", 4 * step.width);
    lines_.line("const int {} = down + fragment_row(e);", row.name);
    lines_.line("const int {} = {}fragment_column(e);", column.name, all_columns ? "" : "right + ");
    std::string within;
    if (row.extent % 16 != 0) within = fmt::format("{} < {}", row.name, row.extent);
    if (column.extent % (8 * step.width) != 0)
      within += fmt::format("{}{} < {}", within.empty() ? "" : " && ", column.name, column.extent);
    lines_.open("{}", within.empty() ? "" : fmt::format("if ({})", within));
  }
  void close_elements() {
    lines_.close();
    lines_.close();
    scope_.clear();
  }

  /// The products that a later step reads: stored in the first pass.
  std::vector<TileValue> dots_stored(const BlockStep& step, bool first) const {
    std::vector<TileValue> stored;
    for (const Node* node : step.nodes) {
      const auto* dot = std::get_if<tile::Dot>(node);
      if (first && dot != nullptr && plan_.value(dot->result).home == BlockHome::shared)
        stored.push_back(dot->result);
    }
    return stored;
  }

  void write_element(const Node& node, const BlockStep& step, const Pass& pass) {
    if (const auto* store = std::get_if<tile::Store>(&node)) {
      if (!stores_tile(*store, step)) return write_store(*store, repeated(*store, step.lanes));
      return lines_.line("{}_tile[e] = {};", text_.argument(store->access.argument), read(store->value).text);
    }
    const TileValue result = tile::result_of(node);
    const std::string text = computed(node).text;
    const bool kept = std::find(pass.kept.begin(), pass.kept.end(), result) != pass.kept.end();
    const std::string name = text_.name(result) + (kept ? "_tile[e]" : "_here");
    lines_.line("{}{} = {};", kept ? "" : fmt::format("const {} ", text_.type(result)), name, text);
    held_[result.id] = name;
    if (plan_.value(result).home == BlockHome::shared && !puts_tile(result, step)) put(result, name);
  }

  /// Whether a value goes to shared memory, or a store to memory, as a whole tile.
  bool puts_tile(TileValue value, const BlockStep& step) const {
    return plan_.value(value).home == BlockHome::shared && array_of(value).narrow &&
           array_of(value).lanes.back() == step.column;
  }
  bool stores_tile(const tile::Store& store, const BlockStep& step) const {
    const auto stride = [&](std::int32_t lane) {
      return store.access.strides[static_cast<std::size_t>(lane)];
    };
    const auto to_the_same = [&](const Node* node) {
      const auto* other = std::get_if<tile::Store>(node);
      return other != nullptr && other->access.argument == store.access.argument;
    };
    if (std::count_if(step.nodes.begin(), step.nodes.end(), to_the_same) > 1) return false;
    return !store.predicate && text_.stored(store.access) == ir::DType::bf16 && step.width % 4 == 0 &&
           text_.info(store.value).dtype == ir::DType::f32 && stride(step.column) == 1 &&
           stride(step.row) != 0 && packet_of(store.access, step.column) == 8;
  }
  void write_tile(const Node& node, const BlockStep& step) {
    const std::string at = step.width * 8 < text_.axis(step.column).extent ? "down, right" : "down, 0";
    const std::string shape =
        fmt::format("{}, {}, {}", step.width, text_.axis(step.row).extent, text_.axis(step.column).extent);
    if (const auto* store = std::get_if<tile::Store>(&node)) {
      if (!stores_tile(*store, step)) return;
      lines_.line("store_tile<{}, {}>({}, {}_tile, {});", shape,
                  store->access.strides[static_cast<std::size_t>(step.row)], text_.pointer(store->access),
                  text_.argument(store->access.argument), at);
      return;
    }
    const TileValue result = tile::result_of(node);
    if (!puts_tile(result, step)) return;
    lines_.line("put_tile<{}, {}>({}, {}_tile, {});", shape, array_of(result).pitch, text_.name(result),
                text_.name(result), at);
  }

  /// A sum over rows becomes known to the threads that share a row, and to the block where a later step reads
  /// it.
  void write_row_results(const BlockStep& step, const tile::Reduce& reduce) {
    const std::string name = text_.name(reduce.result) + "_rows";
    lines_.line("over_rows<{}>({});", op_name(reduce), name);
    held_[reduce.result.id] = name + "[e % 4 / 2]";
    if (plan_.value(reduce.result).home != BlockHome::shared) return;
    const tile::Axis& row = text_.axis(step.row);
    lines_.directive("#pragma unroll");
    lines_.open("for (int e = 0; e < 4; e += 2)");
    lines_.line("const int {} = down + fragment_row(e);", row.name);
    lines_.line("if (threadIdx.x % 4 == 0{}) {} = {}[e / 2];",
                row.extent % 16 != 0 ? fmt::format(" && {} < {}", row.name, row.extent) : "",
                place(reduce.result), name);
    lines_.close();
  }

  const tile::Kernel& kernel_;
  const BlockPlan& plan_;
  KernelText text_;
  Lines lines_;
  std::set<std::int32_t> scope_;              // values computed again in the scope that is open
  std::map<std::int32_t, std::string> held_;  // values that the thread has in registers under these names
  std::vector<Span> read_, written_;          // since the last barrier
  std::set<std::int32_t> touched_;            // arguments that were written, or may be
};

}  // namespace

KernelSource emit_block(const tile::Kernel& kernel, const EntryPoint& entry, const BlockPlan& plan) {
  return BlockWriter(kernel, entry, plan).write();
}

}  // namespace rewire::codegen::cuda
