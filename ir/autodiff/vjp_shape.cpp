// VJPs of the ops that move elements. Each one moves the cotangent by the adjoint of the op's movement.
#include "ir/opcodes.h"
#include "ir/ops/axes.h"
#include "ir/ops/functions.h"
#include "ir/ops/op_info.h"

namespace rewire::ir {
namespace {

Value zeros(Builder& b, const TensorType& type) {
  return b.constant(0.0, type.dtype, type.shape);
}

Value pad(Builder& b, Value x, Ints low, Ints high) {
  return b.emit(Opcode::pad, {x}, {{"low", std::move(low)}, {"high", std::move(high)}});
}

/// Puts stride - 1 zeros after each element along `axis`, then cuts the end off at `limit`:
/// y[i stride] = x[i].
Value dilate(Builder& b, Value x, std::size_t axis, std::int64_t stride, std::int64_t limit) {
  Shape split = b.shape(x);
  split.insert(split.begin() + static_cast<std::ptrdiff_t>(axis) + 1, 1);
  Ints low(split.size(), 0), high(split.size(), 0);
  high[axis + 1] = stride - 1;
  Shape merged = b.shape(x);
  merged[axis] *= stride;
  const Value spread = b.reshape(pad(b, b.reshape(x, split), low, high), merged);
  return merged[axis] > limit ? b.slice(spread, static_cast<int>(axis), 0, limit) : spread;
}

Ints inverse_permutation(const Ints& permutation) {
  Ints inverse(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i)
    inverse[static_cast<std::size_t>(permutation[i])] = static_cast<std::int64_t>(i);
  return inverse;
}

/// Returns the permutation that moves `axis` to the end and keeps the order of the other axes.
Ints axis_last(std::size_t axis, std::size_t rank) {
  Ints permutation;
  for (std::size_t i = 0; i < rank; ++i) {
    if (i != axis) permutation.push_back(static_cast<std::int64_t>(i));
  }
  permutation.push_back(static_cast<std::int64_t>(axis));
  return permutation;
}

}  // namespace

void vjp_reshape(VjpContext& c) {
  c.accumulate(0, c.builder.reshape(c.cotangent(), c.builder.shape(c.operand(0))));
}

void vjp_transpose(VjpContext& c) {
  Ints permutation = c.op.attributes.get_ints("permutation");
  const int rank = static_cast<int>(permutation.size());
  for (std::int64_t& axis : permutation) axis = normal_axis(axis, rank);
  c.accumulate(0, c.builder.transpose(c.cotangent(), inverse_permutation(permutation)));
}

void vjp_broadcast(VjpContext& c) {
  const Shape shape = c.builder.shape(c.operand(0));
  c.accumulate(0, c.builder.sum_to(c.cotangent(), shape));
}

// dx is g at start + i stride, and zero elsewhere.
void vjp_slice(VjpContext& c) {
  Builder& b = c.builder;
  const Shape shape = b.shape(c.operand(0));
  const Ints& starts = c.op.attributes.get_ints("starts");
  const Ints& strides = c.op.attributes.get_ints("strides");
  Value g = c.cotangent();
  Ints high(shape.size());
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const std::int64_t stride = strides.empty() ? 1 : strides[axis];
    const std::int64_t room = shape[axis] - starts[axis];
    if (stride > 1) g = dilate(b, g, axis, stride, room);
    high[axis] = room - b.shape(g)[axis];
  }
  c.accumulate(0, pad(b, g, starts, high));
}

void vjp_pad(VjpContext& c) {
  const Shape shape = c.builder.shape(c.operand(0));
  const Ints starts = c.op.attributes.get_ints("low");
  Ints limits = starts;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) limits[axis] += shape[axis];
  c.accumulate(0, c.builder.emit(Opcode::slice, {c.cotangent()}, {{"starts", starts}, {"limits", limits}}));
}

void vjp_concat(VjpContext& c) {
  Builder& b = c.builder;
  const int axis = normal_axis(c.op.attributes.get_int("axis"), b.type(c.result()).rank());
  std::int64_t start = 0;
  for (std::size_t i = 0; i < c.op.operands.size(); ++i) {
    const std::int64_t limit = start + b.shape(c.operand(i))[static_cast<std::size_t>(axis)];
    if (c.needs(i)) c.accumulate(i, b.slice(c.cotangent(), axis, start, limit));
    start = limit;
  }
}

void vjp_gather(VjpContext& c) {
  Builder& b = c.builder;
  const Value base = zeros(b, b.type(c.operand(0)));
  c.accumulate(0, b.emit(Opcode::scatter_add, {base, c.operand(1), c.cotangent()},
                         {{"axis", c.op.attributes.get_int("axis")}}));
}

void vjp_scatter_add(VjpContext& c) {
  const Value g = c.cotangent();
  c.accumulate(0, g);
  if (!c.needs(2)) return;
  c.accumulate(
      2, c.builder.emit(Opcode::gather, {g, c.operand(1)}, {{"axis", c.op.attributes.get_int("axis")}}));
}

// values[r, j] = x[r, indices[r, j]] with the sorted axis last, so dx[r, indices[r, j]] = g[r, j].
void vjp_sort(VjpContext& c) {
  Builder& b = c.builder;
  const TensorType type = b.type(c.operand(0));
  const auto axis = static_cast<std::size_t>(normal_axis(c.op.attributes.get_int("axis"), type.rank()));
  const Ints to_last = axis_last(axis, type.shape.size());
  const Value g = b.transpose(c.cotangent(0), to_last);
  const Value rows = b.emit(Opcode::scatter_add, {zeros(b, b.type(g)), b.transpose(c.result(1), to_last), g},
                            {{"axis", std::int64_t{-1}}});
  c.accumulate(0, b.transpose(rows, inverse_permutation(to_last)));
}

}  // namespace rewire::ir
