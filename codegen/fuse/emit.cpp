// Writes groups as tile kernels, op by op; see emit.h.
#include "codegen/fuse/emit.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "codegen/fuse/kernel_builder.h"
#include "codegen/fuse/plain_kernels.h"
#include "codegen/lowering_steps.h"
#include "codegen/tile/erf_by_exp.h"
#include "codegen/tile/simplify.h"
#include "codegen/tile/walk.h"
#include "ir/error.h"
#include "ir/opcodes.h"
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

// Returns the largest divisor of n that is at most `limit`; 1 if n has none.
std::int64_t largest_divisor(std::int64_t n, std::int64_t limit) {
  for (std::int64_t d = std::min(n, limit); d > 1; --d) {
    if (n % d == 0) return d;
  }
  return 1;
}

// Cuts a group's only axis into rows if it is long. Uncut, it would be one instance.
Group cut_long_axis(const Grouping& grouping, const Group& group) {
  const std::set<int> axes = group.all_axes();
  if (axes.size() != 1) return group;
  const int axis = *axes.begin();
  const std::int64_t extent = group.extents[static_cast<std::size_t>(axis)];
  const std::int64_t low = largest_divisor(extent, kMaxVectorExtent);
  if (extent <= kMaxVectorExtent || low < 64) return group;
  Group cut = group;
  cut.split_axis({axis, low});
  const auto plan = grouping.plan_axes_of(cut);
  return plan && plan->rows.size() == 1 ? cut : group;
}

AxisPlan axes_of(const Grouping& grouping, const Group& group) {
  const auto plan = grouping.plan_axes_of(group);
  if (!plan) internal_error("a fused group of '{}' lost its axes", grouping.function().name);
  return *plan;
}

// Reports what a kernel moves. Each buffer counts once, for the elements that the kernel touches.
GroupReport report_of(const tile::Kernel& kernel, std::int64_t flops) {
  std::map<std::int32_t, std::int64_t> read, written;
  const auto touched = [&](const tile::Access& a) {
    std::int64_t elements = a.part_stride != 0 ? kernel.partitions : 1;
    for (std::size_t i = 0; i < a.strides.size(); ++i) {
      if (a.strides[i] != 0) elements *= kernel.axes[i].extent;
    }
    const ir::DType dtype = kernel.arguments[static_cast<std::size_t>(a.argument)].dtype;
    return elements * static_cast<std::int64_t>(ir::dtype_bytes(dtype));
  };
  visit_nodes(kernel, [&](const tile::Node& node) {
    if (const auto* l = std::get_if<tile::Load>(&node))
      read[l->access.argument] = std::max(read[l->access.argument], touched(l->access));
    if (const auto* s = std::get_if<tile::Store>(&node)) written[s->access.argument] += touched(s->access);
  });
  GroupReport report;
  report.kernel = kernel.name;
  report.ops = kernel.origin;
  report.flops = flops;
  for (const auto& [argument, bytes] : read) report.bytes_read += bytes;
  for (const auto& [argument, bytes] : written) report.bytes_written += bytes;
  return report;
}

bool sums_lanes(const Grouping& grouping, const Group& group, const AxisPlan& plan) {
  return std::ranges::any_of(group.reduce_maps, [&](const auto& reduction) {
    const Op& op = grouping.function().body[static_cast<std::size_t>(reduction.first)];
    if (!is_reduction(op)) return false;
    const std::set<int> reduced = group.reduced_axes(reduction.first, op);
    return std::ranges::any_of(plan.lanes, [&](int axis) { return reduced.contains(axis); });
  });
}

KernelBuilder builder_of(const Program& program, const Grouping& grouping, const Group& group,
                         const WorkGrain& grain) {
  const AxisPlan plan = axes_of(grouping, group);
  return {program, plan, group.extents, sums_lanes(grouping, group, plan), grain};
}

class Emitter {
 public:
  Emitter(const Grouping& grouping, Storage& storage, const GroupNode& node, const Program& program,
          const WorkGrain& grain)
      : grouping_(grouping),
        storage_(storage),
        program_(program),
        group_(cut_long_axis(grouping, node.group)),
        builder_(builder_of(program, grouping, group_, grain)),
        row_sum_lanes_(grain.row_sum_lanes),
        erf_by_exp_(grain.erf_by_exp) {}

  EmittedGroup emit() {
    for (int op : group_.ops) emit_op(op);
    name_kernel();
    EmittedGroup emitted;
    emitted.report = report_of(builder_.kernel, flops_);
    if (grouping_.does(kMergeAxes)) tile::merge_axes(builder_.kernel);
    if (erf_by_exp_) tile::compute_erf_by_exp(builder_.kernel);
    tile::verify(builder_.kernel);
    emitted.kernel = {std::move(builder_.kernel), std::move(builder_.buffers)};
    emitted.finish = std::move(finish_);
    return emitted;
  }

 private:
  using Emitted = KernelBuilder::Emitted;
  using Level = KernelBuilder::Level;

  const Op& op_at(int index) const { return grouping_.function().body[static_cast<std::size_t>(index)]; }
  const ir::TensorType& type(Value value) const { return grouping_.function().type(value); }

  // Returns the operand of an op: a value that this group computed, a constant, an index, or a load.
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
      value = builder_.constant(*splat, dtype);
    } else if (definition != nullptr && definition->code == Opcode::iota &&
               grouping_.producer(source.root) < 0) {
      value = builder_.index_value(iota_index(*definition, source.map), dtype);
    } else {
      const View& view = storage_.view(source.root);
      Affine at = source.linear ? source.map[0] : strided_index(source.map, view.offset, view.strides);
      if (source.linear) at.offset += view.offset;
      value = builder_.load(view.buffer, dtype, at);
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
    builder_.kernel.origin.push_back(ir::describe(op));
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
      result =
          builder_.index_value(iota_index(op, group_.maps.at(op.results[0].id)), type(op.results[0]).dtype);
    } else if (is_view(op.code)) {
      result = operand(index, 0);
    } else {
      std::vector<Emitted> operands;
      for (std::size_t k = 0; k < op.operands.size(); ++k)
        operands.push_back(operand(index, static_cast<int>(k)));
      result = builder_.pointwise(
          op.code, type(op.results[0]).dtype, operands,
          op.code == Opcode::compare ? op.attributes.get_string("direction") : std::string());
    }
    flops_ += group_.size_of(Group::axes_of(group_.maps.at(op.results[0].id)));
    finish_value(op.results[0], result);
  }

  void finish_value(Value value, const Emitted& emitted) {
    computed_[value.id] = emitted;
    if (group_.exported.contains(value.id) && !storage_.is_written_by_twin(value))
      builder_.store(emitted, storage_.view(value), group_.maps.at(value.id), {});
  }

  void emit_update(int index) {
    const Op& op = op_at(index);
    const Emitted value = operand(index, 0);
    TileValue predicate;
    if (op.operands.size() == 2) predicate = operand(index, 1).value;
    const std::int32_t buffer = storage_.state(op.attributes.get_string("name"));
    const Shape& shape = type(op.operands[0]).shape;
    builder_.store(value, {buffer, 0, shape, ir::row_major_strides(shape)}, group_.reduce_maps.at(index),
                   predicate);
  }

  Emitted emit_row_reduction(int index) {
    const Op& op = op_at(index);
    const Emitted value = operand(index, 0);
    const auto axes = reduced_lanes(index, value);
    flops_ += group_.size_of(Group::axes_of(group_.reduce_maps.at(index)));
    return reduce(op, value, axes, index);
  }

  // Returns the reduced lane axes that the value has. It repeats along the others, so the sum is multiplied
  // by repeats().
  std::vector<std::int32_t> reduced_lanes(int index, const Emitted& value) const {
    std::vector<std::int32_t> axes;
    const auto& lanes = builder_.lanes(value.value);
    for (std::int32_t axis : builder_.lanes_of(group_.reduced_axes(index, op_at(index)))) {
      if (std::find(lanes.begin(), lanes.end(), axis) != lanes.end()) axes.push_back(axis);
    }
    return axes;
  }

  std::vector<std::int32_t> lanes_without(TileValue value, const std::vector<std::int32_t>& axes) const {
    std::vector<std::int32_t> rest;
    for (std::int32_t lane : builder_.lanes(value)) {
      if (std::find(axes.begin(), axes.end(), lane) == axes.end()) rest.push_back(lane);
    }
    return rest;
  }

  // Returns how often each element occurs in a reduction's sum, if only `axes` of its reduced lanes are
  // summed.
  std::int64_t repeats(int index, const std::vector<std::int32_t>& axes) const {
    std::int64_t product = 1;
    for (int axis : group_.reduced_axes(index, op_at(index))) {
      const std::int32_t at = builder_.axis(axis);
      const bool lane =
          at >= 0 && builder_.kernel.axes[static_cast<std::size_t>(at)].use == tile::AxisUse::lane;
      if (lane && std::find(axes.begin(), axes.end(), at) == axes.end())
        product *= group_.extents[static_cast<std::size_t>(axis)];
    }
    return product;
  }

  Emitted reduce(const Op& op, Emitted value, const std::vector<std::int32_t>& axes, int index) {
    const DType dtype = type(op.results[0]).dtype;
    if (!axes.empty()) {
      const TileValue result = builder_.new_value(dtype, lanes_without(value.value, axes));
      const auto kind = op.code == Opcode::sum ? tile::ReduceKind::sum : tile::ReduceKind::max;
      builder_.nodes(value.level).push_back(tile::Reduce{result, kind, value.value, axes});
      value.value = result;
    }
    const std::int64_t times = repeats(index, axes);
    if (op.code == Opcode::sum && times > 1) {
      value = builder_.pointwise(Opcode::mul, dtype,
                                 {value, builder_.constant(static_cast<double>(times), dtype)});
    }
    return value;
  }

  // Emits a reduction that no op of the group reads. Over lanes alone, it is stored for each row. Over rows,
  // it is carried and stored at the end.
  void emit_sink(int index) {
    const Op& op = op_at(index);
    const Value result = op.results[0];
    Emitted value = operand(index, 0);
    const std::set<int> reduced = group_.reduced_axes(index, op);
    flops_ += group_.size_of(Group::axes_of(group_.reduce_maps.at(index)));
    const IndexMap& map = group_.maps.at(result.id);
    if (!builder_.has_row(reduced)) {
      const Emitted sum = reduce(op, value, reduced_lanes(index, value), index);
      builder_.store(sum, storage_.view(result), map, {});
      return;
    }
    const bool row_sum = sums_rows_first(index, value);
    if (row_sum) value = reduce(op, value, reduced_lanes(index, value), index);
    const DType dtype = type(result).dtype;
    const auto lanes = builder_.lanes(value.value);
    const bool is_sum = op.code == Opcode::sum;
    tile::Carried carried;
    carried.initial = builder_.new_value(dtype, lanes);
    builder_.kernel.prologue.push_back(
        tile::Constant{carried.initial, is_sum ? 0.0 : -std::numeric_limits<double>::infinity()});
    carried.entry = builder_.new_value(dtype, lanes);
    carried.next = builder_.new_value(dtype, lanes);
    carried.last = builder_.new_value(dtype, lanes);
    builder_.kernel.body.push_back(tile::Pointwise{
        carried.next, is_sum ? Opcode::add : Opcode::maximum, {carried.entry, value.value}, {}});
    builder_.kernel.carried.push_back(carried);
    finish_sink(index, carried.last, row_sum);
  }

  // Returns whether the sum runs over all lanes of the value, and over enough of them. Then one number is
  // carried over the rows, not a whole row, which each row would read and write.
  bool sums_rows_first(int index, const Emitted& value) const {
    const auto& lanes = builder_.lanes(value.value);
    std::int64_t elements = 1;
    for (const std::int32_t lane : lanes)
      elements *= builder_.kernel.axes[static_cast<std::size_t>(lane)].extent;
    return row_sum_lanes_ > 0 && elements >= row_sum_lanes_ &&
           reduced_lanes(index, value).size() == lanes.size();
  }

  /// Emits the end of a reduction over rows. `row_sum`: each row's lanes have been added up already.
  void finish_sink(int index, TileValue last, bool row_sum) {
    const Op& op = op_at(index);
    const Value result = op.results[0];
    const DType dtype = type(result).dtype;
    std::vector<std::int32_t> axes = reduced_lanes(index, {last, Level::prologue});
    TileValue sum = last;
    if (!axes.empty()) {
      sum = builder_.new_value(dtype, lanes_without(last, axes));
      const auto kind = op.code == Opcode::sum ? tile::ReduceKind::sum : tile::ReduceKind::max;
      builder_.kernel.epilogue.push_back(tile::Reduce{sum, kind, last, axes});
    }
    const std::int64_t times = row_sum ? 1 : repeats(index, axes);
    if (op.code == Opcode::sum && times > 1) {
      const Emitted factor = builder_.constant(static_cast<double>(times), dtype);
      const TileValue scaled = builder_.new_value(dtype, builder_.lanes(sum));
      builder_.kernel.epilogue.push_back(tile::Pointwise{scaled, Opcode::mul, {sum, factor.value}, {}});
      sum = scaled;
    }
    const View home = storage_.view(result);
    const IndexMap& map = group_.maps.at(result.id);
    if (builder_.kernel.partitions == 1) {
      builder_.kernel.epilogue.push_back(
          tile::Store{sum,
                      builder_.access(builder_.argument(home.buffer, tile::ArgumentUse::write),
                                      strided_index(map, home.offset, home.strides)),
                      {}});
      return;
    }
    const std::int64_t size = type(result).elements();
    const std::int32_t partial = storage_.add_temporary(
        op.location + ".partials", {compute_type(dtype), {builder_.kernel.partitions, size}});
    tile::Access part = builder_.access(builder_.argument(partial, tile::ArgumentUse::write),
                                        linear_index(map, type(result).shape));
    part.part_stride = size;
    builder_.kernel.epilogue.push_back(tile::Store{sum, part, {}});
    finish_.push_back(emit_finish(program_, op, partial, builder_.kernel.partitions, home));
  }

  Emitted emit_random(int index) {
    const Op& op = op_at(index);
    const Emitted seed = operand(index, 0), step = operand(index, 1);
    const IndexMap& map = group_.maps.at(op.results[0].id);
    const Affine element = linear_index(map, type(op.results[0]).shape);
    const Level level = builder_.has_row(Group::axes_of({element})) ? Level::body : Level::prologue;
    const TileValue result =
        builder_.new_value(type(op.results[0]).dtype, builder_.lanes_of(Group::axes_of({element})));
    builder_.nodes(level).push_back(
        tile::Random{result, op.code == Opcode::random_normal, seed.value, step.value,
                     ir::stream_hash(op.attributes.get_string("stream")), builder_.access(0, element)});
    return {result, level};
  }

  Emitted clamp_index(const Emitted& index, std::int64_t limit) {
    const Emitted low =
        builder_.pointwise(Opcode::maximum, DType::i64, {index, builder_.constant(0, DType::i64)});
    return builder_.pointwise(Opcode::minimum, DType::i64,
                              {low, builder_.constant(static_cast<double>(limit - 1), DType::i64)});
  }

  Emitted indexed_load(const Source& source, const Affine& fixed, const Emitted& index, std::int64_t stride,
                       std::int64_t limit) {
    const View& view = storage_.view(source.root);
    const auto& index_lanes = builder_.lanes(index.value);
    std::set<std::int32_t> lanes(index_lanes.begin(), index_lanes.end());
    for (std::int32_t lane : builder_.lanes_of(Group::axes_of({fixed}))) lanes.insert(lane);
    const Level level = builder_.has_row(Group::axes_of({fixed})) ? Level::body : index.level;
    const TileValue result = builder_.new_value(type(source.root).dtype, {lanes.begin(), lanes.end()});
    builder_.nodes(level).push_back(
        tile::Load{result, builder_.access(builder_.argument(view.buffer, tile::ArgumentUse::read), fixed),
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
    at = builder_.pointwise(Opcode::cast, DType::i64, {at});
    return indexed_load(source, strided_index(source.map, view.offset, view.strides), at,
                        view.strides[static_cast<std::size_t>(axis)],
                        view.shape[static_cast<std::size_t>(axis)]);
  }

  // Emits a pad: the operand inside the window, the fill value outside. Along padded axes the address is
  // clamped, then the operand or the fill value is selected.
  Emitted emit_pad(int index) {
    const Op& op = op_at(index);
    const Source& source = group_.sources.at({index, 0});
    const View& view = storage_.view(source.root);
    const ir::Ints& low = op.attributes.get_ints("low");
    const ir::Ints& high = op.attributes.get_ints("high");
    const auto number = [&](std::int64_t value) {
      return builder_.constant(static_cast<double>(value), DType::i64);
    };
    const auto is = [&](const Emitted& a, const char* direction, const Emitted& b) {
      return builder_.pointwise(Opcode::compare, DType::i1, {a, b}, direction);
    };
    const auto both = [&](const Emitted& a, const Emitted& b) {
      return builder_.pointwise(Opcode::logical_and, DType::i1, {a, b});
    };
    // With one padded axis, the load is a gather along it, which clamps the index itself. With several, the
    // clamped steps along them are added up.
    const auto padded = [&](std::size_t d) { return low[d] != 0 || high[d] != 0; };
    std::size_t axes = 0;
    for (std::size_t d = 0; d < low.size(); ++d) axes += padded(d) ? 1 : 0;
    Emitted inside = builder_.constant(1, DType::i1), at = number(0);
    std::int64_t limit = 1, stride = 1;
    Shape direct = view.strides;
    for (std::size_t d = 0; d < low.size(); ++d) {
      if (!padded(d)) continue;
      direct[d] = 0;
      Affine shifted = source.map[d];
      shifted.offset -= low[d];
      const Emitted i = builder_.index_value(shifted, DType::i64);
      const std::int64_t extent = view.shape[d];
      const Emitted within = both(is(i, "ge", number(0)), is(i, "lt", number(extent)));
      if (axes == 1) {
        inside = within, at = i, limit = extent, stride = view.strides[d];
        break;
      }
      inside = both(inside, within);
      const Emitted step =
          builder_.pointwise(Opcode::mul, DType::i64, {clamp_index(i, extent), number(view.strides[d])});
      at = builder_.pointwise(Opcode::add, DType::i64, {at, step});
      limit += (extent - 1) * view.strides[d];
    }
    const Emitted loaded =
        indexed_load(source, strided_index(source.map, view.offset, direct), at, stride, limit);
    const DType dtype = type(op.results[0]).dtype;
    const Emitted fill =
        builder_.constant(op.attributes.has("value") ? op.attributes.get_double("value") : 0.0, dtype);
    return builder_.pointwise(Opcode::select, dtype, {inside, loaded, fill});
  }

  void name_kernel() {
    const bool sinks = !builder_.kernel.carried.empty();
    const bool rows = !group_.row_reductions.empty();
    const char* what = sinks                    ? (rows ? "rows_columns" : "columns")
                       : rows                   ? "rows"
                       : group_.updates.empty() ? "map"
                                                : "update";
    std::string extents;
    for (const tile::Axis& axis : builder_.kernel.axes)
      extents += (extents.empty() ? "" : "x") + std::to_string(axis.extent);
    const std::string& location = op_at(group_.ops.back()).location;
    builder_.kernel.name =
        fmt::format("{}_{}{}{}", kernel_identifier(location), what, extents.empty() ? "" : "_", extents);
  }

  const Grouping& grouping_;
  Storage& storage_;
  const Program& program_;
  const Group group_;
  KernelBuilder builder_;
  const std::int64_t row_sum_lanes_;
  const bool erf_by_exp_;
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

}  // namespace rewire::codegen
