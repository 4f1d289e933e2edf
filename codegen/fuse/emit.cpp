// Groups to tile kernels; see emit.h.
#include "codegen/fuse/emit.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "codegen/tile/simplify.h"
#include "ir/error.h"
#include "ir/ops/op_info.h"
#include "ir/philox.h"

namespace rewire::codegen {
namespace {

using ir::DType;
using ir::Op;
using ir::Opcode;
using ir::Shape;
using ir::Value;
using tile::TileValue;

constexpr std::int64_t kMaxVectorExtent = 4096;

// The type a storage type is computed in.
DType compute_type(DType dtype) {
  return dtype == DType::bf16 || dtype == DType::f16 ? DType::f32 : dtype;
}

// The largest divisor of n that is at most `limit`; 1 if n has none.
std::int64_t largest_divisor(std::int64_t n, std::int64_t limit) {
  for (std::int64_t d = std::min(n, limit); d > 1; --d) {
    if (n % d == 0) return d;
  }
  return 1;
}

// "blocks.3.norm1" -> "blocks_3_norm1".
std::string identifier(const std::string& text) {
  std::string name;
  for (char c : text) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name.empty() ? "kernel" : name;
}

class Emitter {
 public:
  Emitter(const Grouping& grouping, Storage& storage, const GroupNode& node, const Program& program,
          const WorkGrain& grain)
      : grouping_(grouping), storage_(storage), program_(program), grain_(grain), group_(node.group) {
    split_long_axis();
    const auto plan = grouping_.plan_axes_of(group_);
    if (!plan) internal_error("a fused group of '{}' lost its axes", grouping_.function().name);
    plan_ = *plan;
    add_axes();
  }

  EmittedGroup emit() {
    for (int op : group_.ops) emit_op(op);
    name_kernel();
    EmittedGroup emitted;
    emitted.report = report();
    tile::merge_axes(kernel_);
    tile::verify(kernel_);
    emitted.kernel = {std::move(kernel_), std::move(buffers_)};
    emitted.finish = std::move(finish_);
    return emitted;
  }

 private:
  enum class Level : std::uint8_t { prologue, body };
  struct Emitted {
    TileValue value;
    Level level = Level::prologue;
  };

  const Op& op_at(int index) const { return grouping_.function().body[static_cast<std::size_t>(index)]; }
  const ir::TensorType& type(Value value) const { return grouping_.function().type(value); }

  // A long axis alone would be one instance: cut it into rows.
  void split_long_axis() {
    const std::set<int> axes = group_.all_axes();
    if (axes.size() != 1) return;
    const int axis = *axes.begin();
    const std::int64_t extent = group_.extents[static_cast<std::size_t>(axis)];
    const std::int64_t low = largest_divisor(extent, kMaxVectorExtent);
    if (extent <= kMaxVectorExtent || low < 64) return;
    Group cut = group_;
    cut.split_axis({axis, low});
    const auto plan = grouping_.plan_axes_of(cut);
    if (plan && plan->rows.size() == 1) group_ = std::move(cut);
  }

  void add_axes() {
    const auto add = [&](const std::vector<int>& axes, tile::AxisUse use, char letter) {
      int number = 0;
      for (int axis : axes) {
        tile_axis_[axis] = static_cast<int>(kernel_.axes.size());
        kernel_.axes.push_back(
            {fmt::format("{}{}", letter, number++), group_.extents[static_cast<std::size_t>(axis)], use});
      }
    };
    add(plan_.outer, tile::AxisUse::outer, 'o');
    add(plan_.rows, tile::AxisUse::row, 'r');
    add(plan_.lanes, tile::AxisUse::lane, 'c');
    std::int64_t outer = 1, rows = 1, lanes = 1;
    for (int axis : plan_.outer) outer *= group_.extents[static_cast<std::size_t>(axis)];
    for (int axis : plan_.rows) rows *= group_.extents[static_cast<std::size_t>(axis)];
    for (int axis : plan_.lanes) lanes *= group_.extents[static_cast<std::size_t>(axis)];
    const std::int64_t wanted = std::min(grain_.max_instances / std::min(outer, grain_.max_instances),
                                         rows * lanes / grain_.elements_per_instance);
    kernel_.partitions = std::clamp<std::int64_t>(wanted, 1, rows);
    // The last partition may be short but never empty.
    const std::int64_t per_part = (rows + kernel_.partitions - 1) / kernel_.partitions;
    kernel_.partitions = (rows + per_part - 1) / per_part;
  }

  std::vector<std::int32_t> lanes_of(const std::set<int>& axes) const {
    std::vector<std::int32_t> lanes;
    for (int axis : plan_.lanes) {
      if (axes.contains(axis)) lanes.push_back(tile_axis_.at(axis));
    }
    return lanes;
  }

  bool has_row(const std::set<int>& axes) const {
    return std::any_of(plan_.rows.begin(), plan_.rows.end(), [&](int axis) { return axes.contains(axis); });
  }

  TileValue new_value(DType dtype, std::vector<std::int32_t> lanes) {
    kernel_.values.push_back({compute_type(dtype), std::move(lanes)});
    return {static_cast<std::int32_t>(kernel_.values.size()) - 1};
  }

  std::vector<tile::Node>& nodes(Level level) {
    return level == Level::body ? kernel_.body : kernel_.prologue;
  }

  std::int32_t argument(std::int32_t buffer, tile::ArgumentUse use) {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      if (buffers_[i] != buffer) continue;
      if (kernel_.arguments[i].use != use) kernel_.arguments[i].use = tile::ArgumentUse::read_write;
      return static_cast<std::int32_t>(i);
    }
    const Buffer& b = program_.buffers[static_cast<std::size_t>(buffer)];
    buffers_.push_back(buffer);
    kernel_.arguments.push_back({b.name, b.type.dtype, use});
    return static_cast<std::int32_t>(buffers_.size()) - 1;
  }

  tile::Access access(std::int32_t argument_index, const Affine& index) const {
    tile::Access access{argument_index, index.offset, std::vector<std::int64_t>(kernel_.axes.size(), 0), 0};
    for (const auto& [axis, coefficient] : index.terms) {
      if (const auto it = tile_axis_.find(axis); it != tile_axis_.end())
        access.strides[static_cast<std::size_t>(it->second)] = coefficient;
    }
    return access;
  }

  static std::set<int> axes_of(const Affine& affine) { return Group::axes_of({affine}); }

  Emitted constant(double value, DType dtype) {
    const TileValue result = new_value(dtype, {});
    kernel_.prologue.push_back(tile::Constant{result, value});
    return {result, Level::prologue};
  }

  Emitted pointwise(Opcode code, DType dtype, const std::vector<Emitted>& operands,
                    const std::string& direction = {}) {
    std::set<std::int32_t> lanes;
    Level level = Level::prologue;
    std::vector<TileValue> values;
    for (const Emitted& operand : operands) {
      const auto& of = kernel_.values[static_cast<std::size_t>(operand.value.id)].lanes;
      lanes.insert(of.begin(), of.end());
      level = std::max(level, operand.level);
      values.push_back(operand.value);
    }
    const TileValue result = new_value(dtype, {lanes.begin(), lanes.end()});
    nodes(level).push_back(tile::Pointwise{result, code, std::move(values), direction});
    return {result, level};
  }

  // offset + sum of coefficient x index, as a value.
  Emitted index_value(const Affine& affine, DType dtype) {
    std::optional<Emitted> sum;
    for (const auto& [axis, coefficient] : affine.terms) {
      const Level level = has_row({axis}) ? Level::body : Level::prologue;
      const TileValue result = new_value(dtype, lanes_of({axis}));
      nodes(level).push_back(tile::Index{result, tile_axis_.at(axis)});
      Emitted term{result, level};
      if (coefficient != 1)
        term = pointwise(Opcode::mul, dtype, {term, constant(static_cast<double>(coefficient), dtype)});
      sum = sum ? pointwise(Opcode::add, dtype, {*sum, term}) : term;
    }
    const Emitted offset = constant(static_cast<double>(affine.offset), dtype);
    if (!sum) return offset;
    return affine.offset == 0 ? *sum : pointwise(Opcode::add, dtype, {*sum, offset});
  }

  Emitted load(const View& view, DType dtype, const Affine& index) {
    const std::set<int> axes = axes_of(index);
    const Level level = has_row(axes) ? Level::body : Level::prologue;
    const TileValue result = new_value(dtype, lanes_of(axes));
    nodes(level).push_back(
        tile::Load{result, access(argument(view.buffer, tile::ArgumentUse::read), index), {}, 0, 0});
    return {result, level};
  }

  // The operand of an op: computed in this group, a constant, an index, or loaded.
  Emitted operand(int index, int position) {
    const Source& source = group_.sources.at({index, position});
    const Op* definition = grouping_.definition(source.root);
    if (const auto it = computed_.find(source.root.id); it != computed_.end()) return it->second;
    const auto key = std::make_pair(source.root.id, source.map);
    for (const auto& [seen, value] : loaded_) {
      if (seen == key) return value;
    }
    const DType dtype = type(source.root).dtype;
    Emitted value;
    const auto splat = definition != nullptr && definition->code == Opcode::constant
                           ? splat_value(*definition)
                           : std::nullopt;
    if (splat) {
      value = constant(*splat, dtype);
    } else if (definition != nullptr && definition->code == Opcode::iota &&
               grouping_.producer(source.root) < 0) {
      value = index_value(iota_index(*definition, source.map), dtype);
    } else {
      const View& view = storage_.view(source.root);
      Affine at = source.linear ? source.map[0] : strided_index(source.map, view.offset, view.strides);
      if (source.linear) at.offset += view.offset;
      value = load(view, dtype, at);
    }
    loaded_.emplace_back(key, value);
    return value;
  }

  Affine iota_index(const Op& iota, const IndexMap& map) const {
    std::int64_t axis = iota.attributes.get_int("axis");
    if (axis < 0) axis += type(iota.results[0]).rank();
    return map[static_cast<std::size_t>(axis)];
  }

  void emit_op(int index) {
    const Op& op = op_at(index);
    kernel_.origin.push_back(ir::describe(op));
    if (op.code == Opcode::update) return emit_update(index);
    Emitted result;
    if (is_reduction(op)) {
      if (!group_.row_reductions.contains(index)) return emit_sink(index);
      result = emit_row_reduction(index);
    } else if (op.code == Opcode::gather || op.code == Opcode::pad) {
      result = op.code == Opcode::gather ? emit_gather(index) : emit_pad(index);
    } else if (op.code == Opcode::random_uniform || op.code == Opcode::random_normal) {
      result = emit_random(index);
    } else if (op.code == Opcode::iota) {
      result = index_value(iota_index(op, group_.maps.at(op.results[0].id)), type(op.results[0]).dtype);
    } else if (is_view(op.code)) {
      result = operand(index, 0);
    } else {
      std::vector<Emitted> operands;
      for (std::size_t k = 0; k < op.operands.size(); ++k)
        operands.push_back(operand(index, static_cast<int>(k)));
      result = pointwise(op.code, type(op.results[0]).dtype, operands,
                         op.code == Opcode::compare ? op.attributes.get_string("direction") : std::string());
    }
    flops_ += group_.size_of(Group::axes_of(group_.maps.at(op.results[0].id)));
    finish_value(op.results[0], result);
  }

  void finish_value(Value value, const Emitted& emitted) {
    computed_[value.id] = emitted;
    if (group_.exported.contains(value.id) && !storage_.is_written_by_twin(value))
      store(emitted, storage_.view(value), group_.maps.at(value.id), {});
  }

  void store(const Emitted& value, const View& view, const IndexMap& map, TileValue predicate) {
    const Affine index = strided_index(map, view.offset, view.strides);
    const Level level = has_row(axes_of(index)) ? Level::body : value.level;
    nodes(level).push_back(
        tile::Store{value.value, access(argument(view.buffer, tile::ArgumentUse::write), index), predicate});
  }

  void emit_update(int index) {
    const Op& op = op_at(index);
    const Emitted value = operand(index, 0);
    TileValue predicate;
    if (op.operands.size() == 2) predicate = operand(index, 1).value;
    const std::int32_t buffer = storage_.state(op.attributes.get_string("name"));
    const Shape& shape = type(op.operands[0]).shape;
    store(value, {buffer, 0, shape, ir::row_major_strides(shape)}, group_.reduce_maps.at(index), predicate);
  }

  Emitted emit_row_reduction(int index) {
    const Op& op = op_at(index);
    const Emitted value = operand(index, 0);
    const auto axes = reduced_lanes(index, value);
    flops_ += group_.size_of(Group::axes_of(group_.reduce_maps.at(index)));
    return reduce(op, value, axes, index);
  }

  // The reduced lane axes that the value has; what it lacks it repeats, and the sum multiplies.
  std::vector<std::int32_t> reduced_lanes(int index, const Emitted& value) const {
    std::vector<std::int32_t> axes;
    const auto& lanes = kernel_.values[static_cast<std::size_t>(value.value.id)].lanes;
    for (std::int32_t axis : lanes_of(group_.reduced_axes(index, op_at(index)))) {
      if (std::find(lanes.begin(), lanes.end(), axis) != lanes.end()) axes.push_back(axis);
    }
    return axes;
  }

  Emitted reduce(const Op& op, Emitted value, const std::vector<std::int32_t>& axes, int index) {
    const DType dtype = type(op.results[0]).dtype;
    if (!axes.empty()) {
      std::vector<std::int32_t> rest;
      for (std::int32_t lane : kernel_.values[static_cast<std::size_t>(value.value.id)].lanes) {
        if (std::find(axes.begin(), axes.end(), lane) == axes.end()) rest.push_back(lane);
      }
      const TileValue result = new_value(dtype, std::move(rest));
      const auto kind = op.code == Opcode::sum ? tile::ReduceKind::sum : tile::ReduceKind::max;
      nodes(value.level).push_back(tile::Reduce{result, kind, value.value, axes});
      value.value = result;
    }
    std::int64_t repeats = 1;
    for (int axis : group_.reduced_axes(index, op)) {
      const auto it = tile_axis_.find(axis);
      const bool lane = it != tile_axis_.end() &&
                        kernel_.axes[static_cast<std::size_t>(it->second)].use == tile::AxisUse::lane;
      if (lane && std::find(axes.begin(), axes.end(), it->second) == axes.end())
        repeats *= group_.extents[static_cast<std::size_t>(axis)];
    }
    if (op.code == Opcode::sum && repeats > 1) {
      value = pointwise(Opcode::mul, dtype, {value, constant(static_cast<double>(repeats), dtype)});
    }
    return value;
  }

  // A reduction nobody inside reads: over lanes alone it is stored per row; over rows it is carried and
  // leaves at the end.
  void emit_sink(int index) {
    const Op& op = op_at(index);
    const Value result = op.results[0];
    const Emitted value = operand(index, 0);
    const std::set<int> reduced = group_.reduced_axes(index, op);
    flops_ += group_.size_of(Group::axes_of(group_.reduce_maps.at(index)));
    const IndexMap& map = group_.maps.at(result.id);
    if (!has_row(reduced)) {
      const Emitted sum = reduce(op, value, reduced_lanes(index, value), index);
      store(sum, storage_.view(result), map, {});
      return;
    }
    const DType dtype = type(result).dtype;
    const auto lanes = kernel_.values[static_cast<std::size_t>(value.value.id)].lanes;
    const bool is_sum = op.code == Opcode::sum;
    tile::Carried carried;
    carried.initial = new_value(dtype, lanes);
    kernel_.prologue.push_back(
        tile::Constant{carried.initial, is_sum ? 0.0 : -std::numeric_limits<double>::infinity()});
    carried.entry = new_value(dtype, lanes);
    carried.next = new_value(dtype, lanes);
    carried.last = new_value(dtype, lanes);
    kernel_.body.push_back(tile::Pointwise{
        carried.next, is_sum ? Opcode::add : Opcode::maximum, {carried.entry, value.value}, {}});
    kernel_.carried.push_back(carried);
    finish_sink(index, carried.last);
  }

  void finish_sink(int index, TileValue last) {
    const Op& op = op_at(index);
    const Value result = op.results[0];
    const DType dtype = type(result).dtype;
    std::vector<std::int32_t> axes = reduced_lanes(index, {last, Level::prologue});
    TileValue sum = last;
    if (!axes.empty()) {
      std::vector<std::int32_t> rest;
      for (std::int32_t lane : kernel_.values[static_cast<std::size_t>(last.id)].lanes) {
        if (std::find(axes.begin(), axes.end(), lane) == axes.end()) rest.push_back(lane);
      }
      sum = new_value(dtype, std::move(rest));
      const auto kind = op.code == Opcode::sum ? tile::ReduceKind::sum : tile::ReduceKind::max;
      kernel_.epilogue.push_back(tile::Reduce{sum, kind, last, axes});
    }
    std::int64_t repeats = 1;
    for (int axis : group_.reduced_axes(index, op)) {
      const std::int32_t at = tile_axis_.at(axis);
      const bool lane = kernel_.axes[static_cast<std::size_t>(at)].use == tile::AxisUse::lane;
      if (lane && std::find(axes.begin(), axes.end(), at) == axes.end())
        repeats *= group_.extents[static_cast<std::size_t>(axis)];
    }
    if (op.code == Opcode::sum && repeats > 1) {
      const Emitted factor = constant(static_cast<double>(repeats), dtype);
      const TileValue scaled = new_value(dtype, kernel_.values[static_cast<std::size_t>(sum.id)].lanes);
      kernel_.epilogue.push_back(tile::Pointwise{scaled, Opcode::mul, {sum, factor.value}, {}});
      sum = scaled;
    }
    const View home = storage_.view(result);
    const IndexMap& map = group_.maps.at(result.id);
    if (kernel_.partitions == 1) {
      kernel_.epilogue.push_back(tile::Store{sum,
                                             access(argument(home.buffer, tile::ArgumentUse::write),
                                                    strided_index(map, home.offset, home.strides)),
                                             {}});
      return;
    }
    const std::int64_t size = type(result).elements();
    const std::int32_t partial =
        storage_.add_temporary(op.location + ".partials", {compute_type(dtype), {kernel_.partitions, size}});
    tile::Access part =
        access(argument(partial, tile::ArgumentUse::write), linear_index(map, type(result).shape));
    part.part_stride = size;
    kernel_.epilogue.push_back(tile::Store{sum, part, {}});
    finish_.push_back(finishing_kernel(op, partial, home));
  }

  // result = sum (or max) of the partials in partition order.
  KernelLaunch finishing_kernel(const Op& op, std::int32_t partial, const View& home) const {
    const bool is_sum = op.code == Opcode::sum;
    const DType dtype = compute_type(type(op.results[0]).dtype);
    tile::Kernel k;
    k.name = identifier(op.location) + "_finish";
    k.origin = {ir::describe(op) + ": adds the partial sums"};
    const Shape& shape = home.shape;
    std::vector<std::int64_t> home_strides, partial_strides;
    std::int64_t size = 1;
    for (std::int64_t extent : shape) size *= extent;
    const Shape dense = ir::row_major_strides(shape);
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == 1) continue;
      const bool last = std::all_of(shape.begin() + static_cast<std::ptrdiff_t>(d) + 1, shape.end(),
                                    [](std::int64_t e) { return e == 1; });
      k.axes.push_back({fmt::format("{}{}", last ? 'c' : 'o', d), shape[d],
                        last ? tile::AxisUse::lane : tile::AxisUse::outer});
      home_strides.push_back(home.strides[d]);
      partial_strides.push_back(dense[d]);
    }
    const auto rows = std::find_if(k.axes.begin(), k.axes.end(),
                                   [](const auto& axis) { return axis.use == tile::AxisUse::lane; });
    const auto at = rows - k.axes.begin();
    k.axes.insert(rows, {"p", kernel_.partitions, tile::AxisUse::row});
    home_strides.insert(home_strides.begin() + at, 0);
    partial_strides.insert(partial_strides.begin() + at, size);
    k.arguments = {
        {op.location + ".partials", dtype, tile::ArgumentUse::read},
        {program_.buffers[static_cast<std::size_t>(home.buffer)].name,
         program_.buffers[static_cast<std::size_t>(home.buffer)].type.dtype, tile::ArgumentUse::write}};
    std::vector<std::int32_t> lanes;
    if (k.axes.back().use == tile::AxisUse::lane)
      lanes.push_back(static_cast<std::int32_t>(k.axes.size()) - 1);
    for (int i = 0; i < 5; ++i) k.values.push_back({dtype, lanes});
    k.prologue.push_back(tile::Constant{{0}, is_sum ? 0.0 : -std::numeric_limits<double>::infinity()});
    k.body.push_back(tile::Load{{1}, {0, 0, partial_strides, 0}, {}, 0, 0});
    k.body.push_back(tile::Pointwise{{3}, is_sum ? Opcode::add : Opcode::maximum, {{2}, {1}}, {}});
    k.carried.push_back({{0}, {2}, {3}, {4}});
    k.epilogue.push_back(tile::Store{{4}, {1, home.offset, home_strides, 0}, {}});
    tile::verify(k);
    return {std::move(k), {partial, home.buffer}};
  }

  Emitted emit_random(int index) {
    const Op& op = op_at(index);
    const Emitted seed = operand(index, 0), step = operand(index, 1);
    const IndexMap& map = group_.maps.at(op.results[0].id);
    const Affine element = linear_index(map, type(op.results[0]).shape);
    const Level level = has_row(axes_of(element)) ? Level::body : Level::prologue;
    const TileValue result = new_value(type(op.results[0]).dtype, lanes_of(axes_of(element)));
    nodes(level).push_back(tile::Random{result, op.code == Opcode::random_normal, seed.value, step.value,
                                        ir::stream_hash(op.attributes.get_string("stream")),
                                        access(0, element)});
    return {result, level};
  }

  Emitted clamp_index(const Emitted& index, std::int64_t limit) {
    const Emitted low = pointwise(Opcode::maximum, DType::i64, {index, constant(0, DType::i64)});
    return pointwise(Opcode::minimum, DType::i64,
                     {low, constant(static_cast<double>(limit - 1), DType::i64)});
  }

  Emitted indexed_load(const Source& source, const Affine& fixed, const Emitted& index, std::int64_t stride,
                       std::int64_t limit) {
    const View& view = storage_.view(source.root);
    const auto& index_lanes = kernel_.values[static_cast<std::size_t>(index.value.id)].lanes;
    std::set<std::int32_t> lanes(index_lanes.begin(), index_lanes.end());
    for (std::int32_t lane : lanes_of(axes_of(fixed))) lanes.insert(lane);
    const Level level = has_row(axes_of(fixed)) ? Level::body : index.level;
    const TileValue result = new_value(type(source.root).dtype, {lanes.begin(), lanes.end()});
    nodes(level).push_back(tile::Load{result, access(argument(view.buffer, tile::ArgumentUse::read), fixed),
                                      index.value, stride, limit});
    return {result, level};
  }

  Emitted emit_gather(int index) {
    const Op& op = op_at(index);
    const Source& source = group_.sources.at({index, 0});
    const View& view = storage_.view(source.root);
    std::int64_t axis = op.attributes.get_int("axis");
    if (axis < 0) axis += type(source.root).rank();
    Emitted at = operand(index, 1);
    at = pointwise(Opcode::cast, DType::i64, {at});
    return indexed_load(source, strided_index(source.map, view.offset, view.strides), at,
                        view.strides[static_cast<std::size_t>(axis)],
                        view.shape[static_cast<std::size_t>(axis)]);
  }

  // Inside the window the operand, outside the value: the address is clamped, then the value selected.
  Emitted emit_pad(int index) {
    const Op& op = op_at(index);
    const Source& source = group_.sources.at({index, 0});
    const View& view = storage_.view(source.root);
    const ir::Ints& low = op.attributes.get_ints("low");
    Emitted inside = constant(1, DType::i1);
    Emitted at = constant(0, DType::i64);
    std::int64_t limit = 1;
    for (std::size_t d = 0; d < low.size(); ++d) {
      Affine shifted = source.map[d];
      shifted.offset -= low[d];
      const Emitted i = index_value(shifted, DType::i64);
      const std::int64_t extent = view.shape[d];
      inside = pointwise(Opcode::logical_and, DType::i1,
                         {inside, pointwise(Opcode::compare, DType::i1, {i, constant(0, DType::i64)}, "ge")});
      inside = pointwise(Opcode::logical_and, DType::i1,
                         {inside, pointwise(Opcode::compare, DType::i1,
                                            {i, constant(static_cast<double>(extent), DType::i64)}, "lt")});
      const Emitted step =
          pointwise(Opcode::mul, DType::i64,
                    {clamp_index(i, extent), constant(static_cast<double>(view.strides[d]), DType::i64)});
      at = pointwise(Opcode::add, DType::i64, {at, step});
      limit += (extent - 1) * view.strides[d];
    }
    const Emitted loaded = indexed_load(source, {view.offset, {}}, at, 1, limit);
    const DType dtype = type(op.results[0]).dtype;
    const Emitted fill =
        constant(op.attributes.has("value") ? op.attributes.get_double("value") : 0.0, dtype);
    return pointwise(Opcode::select, dtype, {inside, loaded, fill});
  }

  void name_kernel() {
    const bool sinks = !kernel_.carried.empty();
    const bool rows = !group_.row_reductions.empty();
    const char* what = sinks                    ? (rows ? "rows_columns" : "columns")
                       : rows                   ? "rows"
                       : group_.updates.empty() ? "map"
                                                : "update";
    std::string extents;
    for (const tile::Axis& axis : kernel_.axes)
      extents += (extents.empty() ? "" : "x") + std::to_string(axis.extent);
    const std::string& location = op_at(group_.ops.back()).location;
    kernel_.name = fmt::format("{}_{}{}{}", identifier(location), what, extents.empty() ? "" : "_", extents);
  }

  GroupReport report() const {
    GroupReport report;
    report.kernel = kernel_.name;
    report.ops = kernel_.origin;
    report.flops = flops_;
    // Each buffer counts once for the elements the kernel touches.
    std::map<std::int32_t, std::int64_t> read, written;
    const auto touched = [&](const tile::Access& a) {
      std::int64_t elements = 1;
      for (std::size_t i = 0; i < a.strides.size(); ++i) {
        if (a.strides[i] != 0) elements *= kernel_.axes[i].extent;
      }
      return elements * (a.part_stride != 0 ? kernel_.partitions : 1) *
             static_cast<std::int64_t>(
                 ir::dtype_bytes(kernel_.arguments[static_cast<std::size_t>(a.argument)].dtype));
    };
    for (const auto* list : {&kernel_.prologue, &kernel_.body, &kernel_.epilogue}) {
      for (const tile::Node& node : *list) {
        if (const auto* l = std::get_if<tile::Load>(&node))
          read[l->access.argument] = std::max(read[l->access.argument], touched(l->access));
        if (const auto* s = std::get_if<tile::Store>(&node))
          written[s->access.argument] += touched(s->access);
      }
    }
    for (const auto& [argument, bytes] : read) report.bytes_read += bytes;
    for (const auto& [argument, bytes] : written) report.bytes_written += bytes;
    return report;
  }

  const Grouping& grouping_;
  Storage& storage_;
  const Program& program_;
  const WorkGrain& grain_;
  Group group_;
  AxisPlan plan_;
  tile::Kernel kernel_;
  std::vector<std::int32_t> buffers_;
  std::map<int, std::int32_t> tile_axis_;
  std::map<std::int32_t, Emitted> computed_;
  std::vector<std::pair<std::pair<std::int32_t, IndexMap>, Emitted>> loaded_;
  std::vector<KernelLaunch> finish_;
  std::int64_t flops_ = 0;
};

}  // namespace

EmittedGroup emit_group(const Grouping& grouping, Storage& storage, const GroupNode& node,
                        const Program& program, const WorkGrain& grain) {
  return Emitter(grouping, storage, node, program, grain).emit();
}

KernelLaunch emit_copy(const Program& program, const View& from, const View& to, const std::string& location,
                       const WorkGrain& grain) {
  tile::Kernel k;
  k.name = identifier(location) + "_copy";
  k.origin = {"copy at " + location};
  std::vector<std::int64_t> read, written;
  for (std::size_t d = 0; d < to.shape.size(); ++d) {
    if (to.shape[d] == 1) continue;
    const bool last = std::all_of(to.shape.begin() + static_cast<std::ptrdiff_t>(d) + 1, to.shape.end(),
                                  [](std::int64_t e) { return e == 1; });
    k.axes.push_back({fmt::format("{}{}", last ? 'c' : 'r', d), to.shape[d],
                      last ? tile::AxisUse::lane : tile::AxisUse::row});
    read.push_back(from.strides[d]);
    written.push_back(to.strides[d]);
  }
  const auto& source = program.buffers[static_cast<std::size_t>(from.buffer)];
  const auto& target = program.buffers[static_cast<std::size_t>(to.buffer)];
  k.arguments = {{source.name, source.type.dtype, tile::ArgumentUse::read},
                 {target.name, target.type.dtype, tile::ArgumentUse::write}};
  std::vector<std::int32_t> lanes;
  if (!k.axes.empty()) lanes.push_back(static_cast<std::int32_t>(k.axes.size()) - 1);
  k.values.push_back({compute_type(source.type.dtype), lanes});
  auto& nodes = k.row_count() > 1 || k.axes.size() > 1 ? k.body : k.prologue;
  nodes.push_back(tile::Load{{0}, {0, from.offset, read, 0}, {}, 0, 0});
  nodes.push_back(tile::Store{{0}, {1, to.offset, written, 0}, {}});
  k.partitions = std::clamp<std::int64_t>(ir::element_count(to.shape) / grain.elements_per_instance, 1,
                                          std::min(grain.max_instances, k.row_count()));
  const std::int64_t per_part = (k.row_count() + k.partitions - 1) / k.partitions;
  k.partitions = (k.row_count() + per_part - 1) / per_part;
  tile::merge_axes(k);
  tile::verify(k);
  return {std::move(k), {from.buffer, to.buffer}};
}

}  // namespace rewire::codegen
