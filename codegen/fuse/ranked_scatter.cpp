// Writes the kernels of ranked_scatter.h.
#include "codegen/fuse/ranked_scatter.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

#include "codegen/fuse/kernel_builder.h"
#include "ir/opcodes.h"
#include "ir/ops/axes.h"
#include "ir/ops/op_info.h"

namespace rewire::codegen {
namespace {

using ir::DType;
using ir::Opcode;
using tile::AxisUse;
using tile::TileValue;
using Lanes = std::vector<std::int32_t>;
using Strides = std::vector<std::pair<std::int32_t, std::int64_t>>;  // by axis

constexpr std::int64_t kFewPairs = std::int64_t{1} << 18;  // are compared in one kernel, which fuses
// The most places of a part, whose keys a block holds in registers: so many for each of counted_places.
constexpr std::int64_t kLongerThanCounted = 8;

/// Returns whether the keys of a part are below 2^31.
bool has_narrow_keys(std::int64_t rows, std::int64_t places) {
  return rows * places <= std::numeric_limits<std::int32_t>::max();
}

/// Returns the number of places of a part.
std::int64_t places_of_part(std::int64_t rows, std::int64_t places, const WorkGrain& grain) {
  std::int64_t most = kLongerThanCounted * grain.counted_places;
  if (!has_narrow_keys(rows, std::min(places, most))) most /= 2;
  const std::int64_t parts = (places + most - 1) / most;
  return (places + parts - 1) / parts;
}

/// A kernel node by node.
class ScatterKernel {
 public:
  ScatterKernel(const ir::Op& op, const char* what) {
    kernel.name = kernel_identifier(op.location) + "_" + what;
    kernel.origin = {ir::describe(op)};
  }

  std::int32_t axis(const char* name, std::int64_t extent, AxisUse use) {
    kernel.axes.push_back({name, extent, use});
    return static_cast<std::int32_t>(kernel.axes.size()) - 1;
  }
  std::int32_t argument(const Program& program, std::int32_t buffer, tile::ArgumentUse use) {
    const Buffer& of = program.buffers[static_cast<std::size_t>(buffer)];
    kernel.arguments.push_back({of.name, of.type.dtype, use});
    buffers.push_back(buffer);
    return static_cast<std::int32_t>(buffers.size()) - 1;
  }
  TileValue value(DType dtype, Lanes lanes = {}) {
    kernel.values.push_back({dtype, std::move(lanes)});
    return {static_cast<std::int32_t>(kernel.values.size()) - 1};
  }
  TileValue constant(double number, DType dtype, Lanes lanes = {}) {
    const TileValue result = value(dtype, std::move(lanes));
    nodes->push_back(tile::Constant{result, number});
    return result;
  }
  TileValue index(std::int32_t axis, DType dtype) {
    const bool lane = kernel.axes[static_cast<std::size_t>(axis)].use == AxisUse::lane;
    const TileValue result = value(dtype, lane ? Lanes{axis} : Lanes{});
    nodes->push_back(tile::Index{result, axis});
    return result;
  }
  TileValue op(Opcode code, std::vector<TileValue> operands, DType dtype, std::string direction = "") {
    Lanes lanes;
    for (const TileValue operand : operands) {
      const Lanes& own = kernel.values[static_cast<std::size_t>(operand.id)].lanes;
      if (lanes.empty()) lanes = own;
    }
    const TileValue result = value(dtype, std::move(lanes));
    nodes->push_back(tile::Pointwise{result, code, std::move(operands), std::move(direction)});
    return result;
  }
  TileValue load(std::int32_t argument, std::int64_t offset, const Strides& strides, DType dtype) {
    return gather(argument, offset, strides, dtype, {}, 0, 0);
  }
  TileValue gather(std::int32_t argument, std::int64_t offset, const Strides& strides, DType dtype,
                   TileValue index, std::int64_t stride, std::int64_t limit) {
    const tile::Access from = access(argument, offset, strides);
    Lanes lanes;
    for (const auto& [axis, by] : strides) {
      if (kernel.axes[static_cast<std::size_t>(axis)].use == AxisUse::lane && by != 0) lanes.push_back(axis);
    }
    const TileValue result = value(dtype, std::move(lanes));
    nodes->push_back(tile::Load{result, from, index, stride, limit});
    return result;
  }
  void store(TileValue what, std::int32_t argument, std::int64_t offset, const Strides& strides) {
    nodes->push_back(tile::Store{what, access(argument, offset, strides), {}});
  }
  TileValue sum(TileValue of, std::int32_t axis) {
    const TileValue result = value(kernel.values[static_cast<std::size_t>(of.id)].dtype);
    nodes->push_back(tile::Reduce{result, tile::ReduceKind::sum, of, {axis}});
    return result;
  }
  KernelLaunch launch() {
    tile::verify(kernel);
    return {std::move(kernel), std::move(buffers)};
  }

  tile::Kernel kernel;
  std::vector<std::int32_t> buffers;
  std::vector<tile::Node>* nodes = &kernel.prologue;

 private:
  tile::Access access(std::int32_t argument, std::int64_t offset, const Strides& strides) const {
    tile::Access result{argument, offset, std::vector<std::int64_t>(kernel.axes.size()), 0};
    for (const auto& [axis, by] : strides) result.strides[static_cast<std::size_t>(axis)] = by;
    return result;
  }
};

class RankedScatter {
 public:
  RankedScatter(Program& program, const OpCall& call, const WorkGrain& grain)
      : program_(program),
        op_(call.op),
        base_(call.operands[0]),
        index_(call.operands[1]),
        updates_(call.operands[2]),
        to_(call.results[0]),
        grain_(grain),
        rows_(to_.shape[0]),
        places_(index_.shape[0]) {}

  std::vector<KernelLaunch> write() {
    rank_ = temporary("rank", DType::i32, places_);
    order_ = temporary("order", DType::i32, places_);
    sorted_ = temporary("sorted", DType::i32, places_);
    start_ = temporary("start", DType::i32, rows_ + 1);
    return {ranks(), orders(), starts(), sums()};
  }

 private:
  std::int32_t temporary(const char* name, DType dtype, std::int64_t count) {
    program_.buffers.push_back({op_.location + "." + name, BufferKind::temporary, {dtype, {count}}, {}});
    return static_cast<std::int32_t>(program_.buffers.size()) - 1;
  }

  /// Adds the axes of all pairs of places: r and the lanes j.
  std::pair<std::int32_t, std::int32_t> pairs(ScatterKernel& k) const {
    const std::int32_t r = k.axis("r", places_, AxisUse::row), j = k.axis("j", places_, AxisUse::lane);
    const std::int64_t parts = std::clamp<std::int64_t>(places_ * places_ / grain_.elements_per_instance, 1,
                                                        std::min(grain_.max_instances, places_));
    const std::int64_t each = (places_ + parts - 1) / parts;
    k.kernel.partitions = (places_ + each - 1) / each;
    return {r, j};
  }

  /// Returns the keys of the places along an axis.
  TileValue keys(ScatterKernel& k, std::int32_t argument, std::int32_t axis) const {
    const bool narrow = has_narrow_keys(rows_, places_);
    const DType dtype = narrow ? DType::i32 : DType::i64;
    TileValue index = k.load(argument, index_.offset, {{axis, index_.strides[0]}}, DType::i32);
    index = clamped(k, index);
    if (!narrow) index = k.op(Opcode::cast, {index}, dtype);
    const TileValue first =
        k.op(Opcode::mul, {index, k.constant(static_cast<double>(places_), dtype)}, dtype);
    return k.op(Opcode::add, {first, k.index(axis, dtype)}, dtype);
  }
  TileValue clamped(ScatterKernel& k, TileValue index) const {
    index = k.op(Opcode::maximum, {index, k.constant(0, DType::i32)}, DType::i32);
    return k.op(Opcode::minimum, {index, k.constant(static_cast<double>(rows_ - 1), DType::i32)}, DType::i32);
  }

  KernelLaunch ranks() const {
    ScatterKernel k(op_, "rank");
    const auto [r, j] = pairs(k);
    const std::int32_t index = k.argument(program_, index_.buffer, tile::ArgumentUse::read);
    const std::int32_t rank = k.argument(program_, rank_, tile::ArgumentUse::write);
    const TileValue all = keys(k, index, j);
    k.nodes = &k.kernel.body;
    const TileValue own = keys(k, index, r);
    const TileValue below =
        k.op(Opcode::cast, {k.op(Opcode::compare, {all, own}, DType::i1, "lt")}, DType::i32);
    k.store(k.sum(below, j), rank, 0, {{r, 1}});
    return k.launch();
  }

  KernelLaunch orders() const {
    ScatterKernel k(op_, "order");
    const auto [r, j] = pairs(k);
    const std::int32_t index = k.argument(program_, index_.buffer, tile::ArgumentUse::read);
    const std::int32_t rank = k.argument(program_, rank_, tile::ArgumentUse::read);
    const std::int32_t order = k.argument(program_, order_, tile::ArgumentUse::write);
    const std::int32_t sorted = k.argument(program_, sorted_, tile::ArgumentUse::write);
    const TileValue all = k.load(rank, 0, {{j, 1}}, DType::i32);
    k.nodes = &k.kernel.body;
    const TileValue here = k.op(Opcode::compare, {all, k.index(r, DType::i32)}, DType::i1, "eq");
    const TileValue place =
        k.sum(k.op(Opcode::select, {here, k.index(j, DType::i32), k.constant(0, DType::i32)}, DType::i32), j);
    k.store(place, order, 0, {{r, 1}});
    const TileValue own = k.gather(index, index_.offset, {}, DType::i32, place, index_.strides[0], places_);
    k.store(clamped(k, own), sorted, 0, {{r, 1}});
    return k.launch();
  }

  KernelLaunch starts() const {
    ScatterKernel k(op_, "start");
    const std::int32_t m = k.axis("m", rows_ + 1, AxisUse::row);
    const std::int32_t sorted = k.argument(program_, sorted_, tile::ArgumentUse::read);
    const std::int32_t start = k.argument(program_, start_, tile::ArgumentUse::write);
    k.nodes = &k.kernel.body;
    const TileValue row = k.index(m, DType::i32);
    const auto number = [&](std::int64_t count) {
      return k.constant(static_cast<double>(count), DType::i32);
    };
    TileValue found = number(0);
    for (auto step = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(places_))); step > 0;
         step /= 2) {
      const TileValue next = k.op(Opcode::add, {found, number(step)}, DType::i32);
      const TileValue last = k.gather(sorted, -1, {}, DType::i32, next, 1, places_ + 1);
      const TileValue below = k.op(Opcode::compare, {last, row}, DType::i1, "lt");
      const TileValue within = k.op(Opcode::compare, {next, number(places_)}, DType::i1, "le");
      found = k.op(Opcode::select, {k.op(Opcode::logical_and, {below, within}, DType::i1), next, found},
                   DType::i32);
    }
    k.store(found, start, 0, {{m, 1}});
    return k.launch();
  }

  KernelLaunch sums() const {
    ScatterKernel k(op_, "rows");
    const std::int32_t m = k.axis("m", rows_, AxisUse::outer), r = k.axis("r", places_, AxisUse::row);
    const std::int32_t c = k.axis("c", to_.shape[1], AxisUse::lane);
    const std::int32_t start = k.argument(program_, start_, tile::ArgumentUse::read);
    const std::int32_t order = k.argument(program_, order_, tile::ArgumentUse::read);
    const std::int32_t updates = k.argument(program_, updates_.buffer, tile::ArgumentUse::read);
    const bool in_place = base_.buffer == to_.buffer;
    const std::int32_t to =
        k.argument(program_, to_.buffer, in_place ? tile::ArgumentUse::read_write : tile::ArgumentUse::write);
    const std::int32_t base = in_place ? to : k.argument(program_, base_.buffer, tile::ArgumentUse::read);
    const auto stride = [](const View& view, std::size_t axis) {
      return view.shape[axis] == 1 ? 0 : view.strides[axis];
    };
    tile::RowBounds bounds{k.load(start, 0, {{m, 1}}, DType::i32), k.load(start, 1, {{m, 1}}, DType::i32),
                           places_};
    k.kernel.bounds = bounds;
    TileValue initial =
        k.load(base, base_.offset, {{m, stride(base_, 0)}, {c, stride(base_, 1)}}, DType::f32);
    if (stride(base_, 1) == 0)
      initial = k.op(Opcode::add, {k.constant(0, DType::f32, {c}), initial}, DType::f32);
    const TileValue entry = k.value(DType::f32, {c}), last = k.value(DType::f32, {c});
    k.nodes = &k.kernel.body;
    const TileValue place = k.load(order, 0, {{r, 1}}, DType::i32);
    const TileValue update = k.gather(updates, updates_.offset, {{c, updates_.strides[1]}}, DType::f32, place,
                                      updates_.strides[0], places_);
    k.kernel.carried.push_back({initial, entry, k.op(Opcode::add, {entry, update}, DType::f32), last});
    k.nodes = &k.kernel.epilogue;
    k.store(last, to, to_.offset, {{m, to_.strides[0]}, {c, to_.strides[1]}});
    return k.launch();
  }

  Program& program_;
  const ir::Op op_;
  const View base_, index_, updates_, to_;
  const WorkGrain& grain_;
  const std::int64_t rows_, places_;
  std::int32_t rank_ = -1, order_ = -1, sorted_ = -1, start_ = -1;
};

}  // namespace

bool is_ranked_scatter(const ir::Function& function, const ir::Op& op, const WorkGrain& grain) {
  if (op.code != Opcode::scatter_add || !grain.ranked_scatters) return false;
  const ir::TensorType &base = function.type(op.operands[0]), &index = function.type(op.operands[1]);
  if (base.rank() != 2 || base.dtype != DType::f32 || index.rank() != 1 || index.dtype != DType::i32)
    return false;
  const std::int64_t places = index.shape[0];
  return ir::normal_axis(op.attributes.get_int("axis"), 2) == 0 && base.shape[0] * places > kFewPairs &&
         base.shape[1] > 1 && base.shape[1] <= grain.lane_elements;
}

std::vector<KernelLaunch> emit_ranked_scatter(Program& program, const OpCall& call, const WorkGrain& grain) {
  const std::int64_t rows = call.results[0].shape[0], places = call.operands[1].shape[0];
  const std::int64_t each = places_of_part(rows, places, grain);
  std::vector<KernelLaunch> launches;
  for (std::int64_t first = 0; first < places; first += each) {
    OpCall part = call;
    for (const std::size_t moved : {1, 2}) {
      View& view = part.operands[moved];
      view.offset += first * view.strides[0];
      view.shape[0] = std::min(each, places - first);
    }
    if (first > 0) part.operands[0] = call.results[0];
    for (KernelLaunch& launch : RankedScatter(program, part, grain).write())
      launches.push_back(std::move(launch));
  }
  return launches;
}

}  // namespace rewire::codegen
