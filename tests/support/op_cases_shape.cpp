// Cases of reductions, matmul and shape ops.
#include <algorithm>
#include <cmath>

#include "ir/opcodes.h"
#include "ir/ops/axes.h"
#include "tests/support/case_builder.h"

namespace rewire::testing {

using namespace rewire::ir;

namespace {

std::int64_t& extent_at(Shape& shape, std::int64_t axis) {
  return shape[static_cast<std::size_t>(normal_axis(axis, static_cast<int>(shape.size())))];
}

/// An input of any dtype, for ops that only move elements.
Value moved_input(CaseBuilder& c, const Shape& shape) {
  return c.input(c.tensor({c.dtype({DType::i32, DType::i64, DType::u8, DType::i1}), shape}));
}

/// Values with ties (and so no derivative by differences) a quarter of the time, distinct ones else.
Value ranked_input(CaseBuilder& c, const Shape& shape) {
  if (c.chance(0.75)) return c.input(c.distinct(shape));
  Tensor x = c.tensor({c.pick({DType::f32, DType::i32, DType::i64, DType::u8}), shape}, -3, 3);
  for (double& value : x.data) value = std::trunc(value);
  return c.input(x, false);
}

/// Indices into an axis, one list or one for each place before it; repeated ones and, rarely, some past its
/// ends.
Value index_input(CaseBuilder& c, Shape shape, std::int64_t axis) {
  const std::int64_t extent = extent_at(shape, axis);
  const int before = c.chance(0.5) ? normal_axis(axis, static_cast<int>(shape.size())) : 0;
  shape.resize(static_cast<std::size_t>(before));
  shape.push_back(c.integer(1, 12));
  Tensor indices({c.pick({DType::i32, DType::i64}), shape});
  const std::int64_t beyond = c.chance(0.2) ? 2 : 0;
  for (double& index : indices.data) index = static_cast<double>(c.integer(-beyond, extent - 1 + beyond));
  return c.input(indices);
}

}  // namespace

void reduce_case(CaseBuilder& c, Opcode code) {
  const Shape shape = c.shape(1, 4);
  Ints axes = c.permutation(shape.size());
  axes.resize(static_cast<std::size_t>(c.integer(1, static_cast<std::int64_t>(axes.size()))));
  for (std::int64_t& axis : axes) {
    if (c.chance(0.3)) axis -= static_cast<std::int64_t>(shape.size());
  }
  if (code == Opcode::max) {
    c.apply(code, {ranked_input(c, shape)}, {{"axes", axes}});
  } else {
    const TensorType type{c.dtype({DType::i32, DType::i64}), shape};
    c.apply(code, {c.input(c.tensor(type))}, {{"axes", axes}});
  }
}

void argmax_case(CaseBuilder& c, Opcode code) {
  const Shape shape = c.shape(1, 4);
  const Value x = ranked_input(c, shape);
  c.apply(code, {x}, {{"axis", c.axis(shape.size())}});
}

void matmul_case(CaseBuilder& c, Opcode code) {
  Shape a;
  for (std::int64_t rank = c.integer(0, 2); rank > 0; --rank) a.push_back(c.integer(1, 3));
  const std::int64_t largest = a.empty() ? 40 : 17;
  const std::int64_t m = c.extent(largest);
  const std::int64_t n = c.extent(largest);
  const std::int64_t k = c.extent(largest);
  const bool transpose_a = c.chance(0.5);
  const bool transpose_b = c.chance(0.5);
  Shape b = c.chance(0.5) ? a : Shape();
  a.insert(a.end(), {transpose_a ? k : m, transpose_a ? m : k});
  b.insert(b.end(), {transpose_b ? n : k, transpose_b ? k : n});
  const Value left = c.input(c.tensor(a));
  c.apply(code, {left, c.input(c.tensor(b))}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
}

void reshape_case(CaseBuilder& c, Opcode code) {
  const Shape from = c.shape(1, 4);
  // The prime factors of the element count, dealt to new axes in random order.
  Shape to(static_cast<std::size_t>(c.integer(1, 4)), 1);
  std::int64_t left = element_count(from);
  for (std::int64_t factor = 2; left > 1;) {
    if (left % factor != 0) {
      ++factor;
      continue;
    }
    left /= factor;
    to[static_cast<std::size_t>(c.integer(0, static_cast<std::int64_t>(to.size()) - 1))] *= factor;
  }
  const Value x = moved_input(c, from);
  c.apply(code, {x}, {}, TensorType{c.module().functions[0].type(x).dtype, to});
}

void transpose_case(CaseBuilder& c, Opcode code) {
  const Shape shape = c.shape(1, 4);
  Ints permutation = c.permutation(shape.size());
  for (std::int64_t& axis : permutation) {
    if (c.chance(0.2)) axis -= static_cast<std::int64_t>(shape.size());
  }
  c.apply(code, {moved_input(c, shape)}, {{"permutation", permutation}});
}

void broadcast_case(CaseBuilder& c, Opcode code) {
  const Shape to = c.shape(1, 4);
  Shape from = to;
  for (std::int64_t& extent : from) {
    if (c.chance(0.5)) extent = 1;
  }
  const Value x = moved_input(c, from);
  c.apply(code, {x}, {}, TensorType{c.module().functions[0].type(x).dtype, to});
}

void slice_case(CaseBuilder& c, Opcode code) {
  const Shape shape = c.shape(1, 4);
  Ints starts;
  Ints limits;
  Ints strides;
  for (std::int64_t extent : shape) {
    starts.push_back(c.integer(0, extent - 1));
    limits.push_back(c.integer(starts.back() + 1, extent));
    strides.push_back(c.integer(1, 3));
  }
  if (c.chance(0.5)) strides.clear();
  c.apply(code, {moved_input(c, shape)}, {{"starts", starts}, {"limits", limits}, {"strides", strides}});
}

void pad_case(CaseBuilder& c, Opcode code) {
  const Shape shape = c.shape(1, 4, 400);
  Ints low;
  Ints high;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    low.push_back(c.integer(0, 2));
    high.push_back(c.integer(0, 2));
  }
  const double value = c.chance(0.5) ? 0.0 : 1.0;
  c.apply(code, {moved_input(c, shape)}, {{"low", low}, {"high", high}, {"value", value}});
}

void concat_case(CaseBuilder& c, Opcode code) {
  Shape shape = c.shape(1, 4, 400);
  const std::int64_t axis = c.axis(shape.size());
  const DType dtype = c.dtype({DType::i32, DType::i64, DType::u8, DType::i1});
  std::vector<Value> parts;
  for (std::int64_t count = c.integer(1, 4); count > 0; --count) {
    extent_at(shape, axis) = c.integer(1, 9);
    parts.push_back(c.input(c.tensor({dtype, shape})));
  }
  c.apply(code, parts, {{"axis", axis}});
}

void gather_case(CaseBuilder& c, Opcode code) {
  Shape shape = c.shape(1, 4, 600);
  const std::int64_t axis = c.axis(shape.size());
  const Value x = moved_input(c, shape);
  c.apply(code, {x, index_input(c, shape, axis)}, {{"axis", axis}});
}

void scatter_add_case(CaseBuilder& c, Opcode code) {
  Shape shape = c.shape(1, 4, 600);
  const std::int64_t axis = c.axis(shape.size());
  const DType dtype = c.dtype({DType::i32, DType::i64});
  const Value base = c.input(c.tensor({dtype, shape}));
  const Value indices = index_input(c, shape, axis);
  extent_at(shape, axis) = c.module().functions[0].type(indices).shape.back();
  c.apply(code, {base, indices, c.input(c.tensor({dtype, shape}))}, {{"axis", axis}});
}

void sort_case(CaseBuilder& c, Opcode code) {
  const Shape shape = c.shape(1, 4);
  const Value x = ranked_input(c, shape);
  c.apply(code, {x}, {{"axis", c.axis(shape.size())}, {"descending", c.chance(0.5)}});
}

void iota_case(CaseBuilder& c, Opcode code) {
  const TensorType type{c.dtype({DType::i32, DType::i64, DType::u8}), c.shape(1, 4)};
  c.apply(code, {}, {{"axis", c.axis(type.shape.size())}}, type);
}

void constant_case(CaseBuilder& c, Opcode code) {
  const TensorType type{c.dtype({DType::i32, DType::i64, DType::u8, DType::i1}), c.shape(1, 4, 100)};
  const Tensor values = c.tensor(type);
  if (c.chance(0.5)) {
    c.apply(code, {}, {{"values", values.data}}, type);
  } else {
    c.apply(code, {}, {{"value", values.data[0]}}, type);
  }
}

}  // namespace rewire::testing
