// Lowers scatter_add and sort to pointwise ops and sums; see indexed.h.
#include "codegen/fuse/indexed.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "codegen/fuse/ranked_scatter.h"
#include "codegen/fuse/storage.h"
#include "ir/builder.h"
#include "ir/opcodes.h"
#include "ir/ops/axes.h"

namespace rewire::codegen {
namespace {

using ir::Builder;
using ir::DType;
using ir::Op;
using ir::Opcode;
using ir::Shape;
using ir::Value;

// A scatter of rows of many elements may have more places, since it compares once per row
// (tile/row_condition.h). A pair of places then counts as kPlacesAnElement / `places` elements that the host
// would move instead.
constexpr std::int64_t kPlacesAnElement = 64;

Value iota(Builder& b, DType dtype, std::size_t rank, std::size_t axis, std::int64_t extent) {
  Shape shape(rank, 1);
  shape[axis] = extent;
  return b.emit(Opcode::iota, {}, {{"axis", static_cast<std::int64_t>(axis)}}, ir::TensorType{dtype, shape});
}

/// Returns x with an axis of extent 1 inserted before `axis`.
Value with_axis(Builder& b, Value x, std::size_t axis) {
  Shape shape = b.shape(x);
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  return b.reshape(x, std::move(shape));
}

// Lowers scatter_add, with all values as [outer..., m, j, inner...].
Value scattered(Builder& b, const Op& op, bool adds_to_zero) {
  const Value base = op.operands[0];
  const ir::TensorType type = b.type(base);
  const auto axis = static_cast<std::size_t>(ir::normal_axis(op.attributes.get_int("axis"), type.rank()));
  const std::size_t rank = type.shape.size() + 1;
  const std::int64_t extent = type.shape[axis];

  Shape lists = b.shape(op.operands[1]);
  if (lists.size() == 1) lists.insert(lists.begin(), axis, 1);
  lists.insert(lists.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  lists.resize(rank, 1);
  Value index = b.reshape(op.operands[1], lists);
  index = b.binary(Opcode::maximum, index, b.constant_like(index, 0));
  index = b.binary(Opcode::minimum, index, b.constant_like(index, static_cast<double>(extent - 1)));
  const Value hit = b.compare("eq", index, iota(b, b.type(index).dtype, rank, axis, extent));

  const DType dtype = ir::dtype_bytes(type.dtype) == 2 ? DType::f32 : type.dtype;
  const Value updates = b.cast(with_axis(b, op.operands[2], axis), dtype);
  const Value chosen = b.select(hit, updates, b.constant(0.0, dtype));
  Value sum = b.reshape(b.sum(chosen, {static_cast<std::int64_t>(axis) + 1}), type.shape);
  if (!adds_to_zero) sum = b.add(b.cast(base, dtype), sum);
  return b.cast(sum, type.dtype);
}

// Returns i1 [..., i, j]: whether j precedes i in sorted order. NaN is above all numbers.
Value stands_before(Builder& b, Value x, bool descending) {
  const std::size_t last = b.shape(x).size() - 1;
  const std::int64_t extent = b.shape(x)[last];
  const auto either = [&](Value a, Value c) { return b.binary(Opcode::logical_or, a, c); };
  const auto both = [&](Value a, Value c) { return b.binary(Opcode::logical_and, a, c); };
  Value low = with_axis(b, x, last), high = with_axis(b, x, last + 1);
  if (descending) std::swap(low, high);
  Value below = b.compare("lt", low, high), equal = b.compare("eq", low, high);
  if (ir::is_float(b.type(x).dtype)) {
    const Value no_low = b.compare("ne", low, low), no_high = b.compare("ne", high, high);
    below = either(below, both(no_high, b.unary(Opcode::logical_not, no_low)));
    equal = either(equal, both(no_low, no_high));
  }
  const Value earlier = b.compare("lt", iota(b, DType::i32, last + 2, last + 1, extent),
                                  iota(b, DType::i32, last + 2, last, extent));
  return either(below, both(equal, earlier));
}

// Lowers sort. Its counts are f32, which represents them all exactly.
std::vector<Value> sorted(Builder& b, const Op& op) {
  const ir::TensorType type = b.type(op.operands[0]);
  const auto axis = static_cast<std::size_t>(ir::normal_axis(op.attributes.get_int("axis"), type.rank()));
  const std::size_t last = type.shape.size() - 1;
  // The sorted axis and the last one are swapped, and swapped back at the end.
  const auto swap = [&](Value value) {
    ir::Ints swapped(type.shape.size());
    std::iota(swapped.begin(), swapped.end(), 0);
    std::swap(swapped[axis], swapped[last]);
    return axis == last ? value : b.transpose(value, swapped);
  };

  const Value x = swap(op.operands[0]);
  const Value before = b.cast(stands_before(b, x, op.attributes.get_bool("descending")), DType::f32);
  const Value rank = b.reshape(b.sum(before, {-1}), b.shape(x));
  const std::int64_t extent = type.shape[axis];
  const Value here = b.compare("eq", with_axis(b, rank, last), iota(b, DType::f32, last + 2, last, extent));
  const Value place = b.select(here, iota(b, DType::f32, last + 2, last + 1, extent), b.constant(0.0));
  const Value index = b.cast(b.reshape(b.sum(place, {-1}), b.shape(x)), DType::i32);
  const Value values = b.emit(Opcode::gather, {x, index}, {{"axis", std::int64_t{-1}}});
  return {swap(values), swap(index)};
}

/// Makes the base of a scatter_add, if it is one number, a broadcast of it: the call reads one element.
void shrink_base(ir::Module& module, ir::Function& function, std::size_t& i) {
  const Op& op = function.body[i];
  if (op.code != Opcode::scatter_add) return;
  const ir::TensorType type = function.type(op.operands[0]);
  const std::int32_t made = function.definitions()[static_cast<std::size_t>(op.operands[0].id)];
  const Op* base = made < 0 ? nullptr : &function.body[static_cast<std::size_t>(made)];
  const auto number = base != nullptr && base->code == Opcode::constant ? splat_value(*base) : std::nullopt;
  if (!number || type.elements() == 1) return;
  Builder b(module, function);
  b.set_position(i);
  b.set_location(op.location);
  const Value one = b.constant(*number, type.dtype, Shape(type.shape.size(), 1));
  const Value whole = b.broadcast(one, type.shape);
  i = b.position();
  function.body[i].operands[0] = whole;
}

bool is_counted(const ir::Function& function, const Op& op, const WorkGrain& grain) {
  const std::int64_t places = grain.counted_places;
  if (op.code != Opcode::sort && op.code != Opcode::scatter_add) return false;
  const ir::TensorType& type = function.type(op.operands[0]);
  if (type.dtype == DType::u8 || is_ranked_scatter(function, op, grain)) return false;
  const ir::AxisView view =
      ir::view_around(type.shape, ir::normal_axis(op.attributes.get_int("axis"), type.rank()));
  if (op.code == Opcode::sort) return view.extent <= places;
  const std::int64_t indices = function.type(op.operands[1]).shape.back();
  const double pairs = static_cast<double>(view.extent) * static_cast<double>(indices);
  if (type.dtype == DType::f32 && pairs > static_cast<double>(grain.counted_pairs)) return false;
  if (std::max(view.extent, indices) <= places) return true;
  const double moved = static_cast<double>(view.extent + indices) * static_cast<double>(view.inner);
  return std::min(view.extent, indices) <= kPlacesAnElement * view.inner &&
         pairs * kPlacesAnElement <= moved * static_cast<double>(places);
}

}  // namespace

void lower_indexed(ir::Module& module, ir::Function& function, const WorkGrain& grain) {
  for (std::size_t i = 0; i < function.body.size(); ++i) {
    if (!is_counted(function, function.body[i], grain)) {
      shrink_base(module, function, i);
      continue;
    }
    const Op op = function.body[i];
    const std::int32_t made = function.definitions()[static_cast<std::size_t>(op.operands[0].id)];
    const Op* base = made < 0 ? nullptr : &function.body[static_cast<std::size_t>(made)];
    const bool zero = base != nullptr && base->code == Opcode::constant && splat_value(*base) == 0 &&
                      !std::signbit(*splat_value(*base));
    Builder b(module, function);
    b.set_position(i);
    b.set_location(op.location);
    const auto results = op.code == Opcode::sort ? sorted(b, op) : std::vector{scattered(b, op, zero)};
    const std::size_t next = b.position();
    for (std::size_t r = 0; r < results.size(); ++r)
      function.replace_uses(op.results[r], results[r], next + 1);
    function.body.erase(function.body.begin() + static_cast<std::ptrdiff_t>(next));
    i = next - 1;
  }
}

}  // namespace rewire::codegen
