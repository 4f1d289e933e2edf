// canonicalise's rules for shape ops. These ops move elements and change none, so every rule is exact.
#include <algorithm>

#include "ir/opcodes.h"
#include "ir/ops/axes.h"
#include "ir/passes/canonicalise_rules.h"

namespace rewire::ir {
namespace {

using enum Opcode;

std::size_t index(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

/// Returns the op's permutation, with axes counted from the front.
Ints permutation_of(const Op& op, int rank) {
  Ints permutation = op.attributes.get_ints("permutation");
  for (std::int64_t& axis : permutation) axis = normal_axis(axis, rank);
  return permutation;
}

struct SliceRange {
  Ints starts, limits, strides;
};

SliceRange range_of(const Op& op) {
  SliceRange range{op.attributes.get_ints("starts"), op.attributes.get_ints("limits"),
                   op.attributes.get_ints("strides")};
  if (range.strides.empty()) range.strides.assign(range.starts.size(), 1);
  return range;
}

Value emit_slice(const Match& m, Value x, SliceRange range) {
  const bool dense = std::all_of(range.strides.begin(), range.strides.end(),
                                 [](std::int64_t stride) { return stride == 1; });
  if (dense) range.strides.clear();
  return m.build().emit(slice, {x},
                        {{"starts", std::move(range.starts)},
                         {"limits", std::move(range.limits)},
                         {"strides", std::move(range.strides)}});
}

bool all_zero(const Ints& values) {
  return std::all_of(values.begin(), values.end(), [](std::int64_t value) { return value == 0; });
}

Value same_shape(const Match& m) {
  return m.shape() == m.shape(m[0]) ? m[0] : Value{};
}

/// For reshape of reshape and broadcast of broadcast: applies the outer op to the inner op's operand.
Value skip_inner(const Match& m) {
  const Value x = m.inside(m[0], m.op.code);
  return x ? m.build().emit(m.op.code, {x}, {}, TensorType(m.type())) : Value{};
}

Value transpose_of_transpose(const Match& m) {
  const Op* inner = m.as(m[0], transpose);
  if (inner == nullptr) return {};
  const int rank = m.type().rank();
  const Ints first = permutation_of(*inner, rank);
  Ints both;
  for (std::int64_t axis : permutation_of(m.op, rank)) both.push_back(first[index(axis)]);
  const Value x = inner->operands[0];
  return m.build().transpose(x, std::move(both));
}

/// A transpose is a reshape if the axes with more than one element keep their order.
Value transpose_is_reshape(const Match& m) {
  std::int64_t last = -1;
  for (std::int64_t axis : permutation_of(m.op, m.type().rank())) {
    if (m.shape(m[0])[index(axis)] == 1) continue;
    if (axis < last) return {};
    last = axis;
  }
  return m.build().reshape(m[0], Shape(m.shape()));
}

/// The transpose only reorders the axes: those that the broadcast grew and those that it did not.
Value transpose_of_broadcast(const Match& m) {
  const Value x = m.inside(m[0], broadcast);
  if (!x) return {};
  const TensorType type = m.type();
  const Value small = m.build().emit(transpose, {x}, m.op.attributes);
  return m.build().broadcast(small, type.shape);
}

Value slice_of_slice(const Match& m) {
  const Op* inner = m.as(m[0], slice);
  if (inner == nullptr) return {};
  const Value x = inner->operands[0];
  const SliceRange first = range_of(*inner);
  SliceRange both = range_of(m.op);
  for (std::size_t i = 0; i < both.starts.size(); ++i) {
    const std::int64_t last = both.starts[i] + (m.shape()[i] - 1) * both.strides[i];
    both.starts[i] = first.starts[i] + both.starts[i] * first.strides[i];
    both.limits[i] = first.starts[i] + last * first.strides[i] + 1;
    both.strides[i] = m.shape()[i] == 1 ? 1 : both.strides[i] * first.strides[i];
  }
  return emit_slice(m, x, std::move(both));
}

/// A slice within one part of a concatenation is a slice of that part.
Value slice_of_concat(const Match& m) {
  const Op* inner = m.as(m[0], concat);
  if (inner == nullptr) return {};
  const std::size_t axis = index(normal_axis(inner->attributes.get_int("axis"), m.type().rank()));
  SliceRange range = range_of(m.op);
  std::int64_t offset = 0;
  for (Value part : inner->operands) {
    const std::int64_t extent = m.shape(part)[axis];
    if (range.starts[axis] >= offset && range.limits[axis] <= offset + extent) {
      range.starts[axis] -= offset;
      range.limits[axis] -= offset;
      return emit_slice(m, part, std::move(range));
    }
    offset += extent;
  }
  return {};
}

/// A slice of a pad that keeps, along every padded axis, only elements of x is a slice of x.
Value slice_of_pad(const Match& m) {
  const Op* inner = m.as(m[0], pad);
  if (inner == nullptr) return {};
  const Value x = inner->operands[0];
  const Ints& low = inner->attributes.get_ints("low");
  SliceRange range = range_of(m.op);
  for (std::size_t i = 0; i < low.size(); ++i) {
    range.starts[i] -= low[i];
    range.limits[i] -= low[i];
    if (range.starts[i] < 0 || range.limits[i] > m.shape(x)[i]) return {};
  }
  return emit_slice(m, x, std::move(range));
}

/// A slice along axes that the broadcast grew is a smaller broadcast.
Value slice_of_broadcast(const Match& m) {
  const Value x = m.inside(m[0], broadcast);
  if (!x) return {};
  for (std::size_t i = 0; i < m.shape().size(); ++i) {
    const bool grown = m.shape(x)[i] == 1;
    if (!grown && m.shape()[i] != m.shape(x)[i]) return {};
  }
  return m.build().broadcast(x, m.shape());
}

Value pad_of_pad(const Match& m) {
  const Op* inner = m.as(m[0], pad);
  if (inner == nullptr || inner->attributes.get_double("value") != m.op.attributes.get_double("value")) {
    return {};
  }
  const Value x = inner->operands[0];
  Ints low = inner->attributes.get_ints("low"), high = inner->attributes.get_ints("high");
  for (std::size_t i = 0; i < low.size(); ++i) {
    low[i] += m.op.attributes.get_ints("low")[i];
    high[i] += m.op.attributes.get_ints("high")[i];
  }
  const double value = m.op.attributes.get_double("value");
  return m.build().emit(pad, {x}, {{"low", std::move(low)}, {"high", std::move(high)}, {"value", value}});
}

Value concat_of_concat(const Match& m) {
  const int rank = m.type().rank();
  const std::int64_t axis = normal_axis(m.op.attributes.get_int("axis"), rank);
  std::vector<Value> parts;
  for (Value part : m.op.operands) {
    const Op* inner = m.as(part, concat);
    if (inner != nullptr && normal_axis(inner->attributes.get_int("axis"), rank) == axis) {
      parts.insert(parts.end(), inner->operands.begin(), inner->operands.end());
    } else {
      parts.push_back(part);
    }
  }
  if (parts == m.op.operands) return {};
  return m.build().concat(parts, static_cast<int>(axis));
}

/// Returns whether `op` is a slice of `x` with stride 1 that takes all of every axis but `axis`.
bool is_part(const Match& m, const Op& op, Value x, std::size_t axis) {
  const SliceRange range = range_of(op);
  for (std::size_t i = 0; i < range.starts.size(); ++i) {
    if (range.strides[i] != 1) return false;
    if (i != axis && (range.starts[i] != 0 || range.limits[i] != m.shape(x)[i])) return false;
  }
  return true;
}

/// Merges two neighbours that are adjacent slices of one
/// tensor into one slice of it. concat_one does the rest.
Value concat_of_slices(const Match& m) {
  const std::size_t axis = index(normal_axis(m.op.attributes.get_int("axis"), m.type().rank()));
  for (std::size_t i = 0; i + 1 < m.op.operands.size(); ++i) {
    const Op* left = m.as(m[i], slice);
    const Op* right = m.as(m[i + 1], slice);
    if (left == nullptr || right == nullptr || left->operands != right->operands) continue;
    const Value x = left->operands[0];
    if (!is_part(m, *left, x, axis) || !is_part(m, *right, x, axis)) continue;
    SliceRange joined = range_of(*left);
    const SliceRange next = range_of(*right);
    if (joined.limits[axis] != next.starts[axis]) continue;
    joined.limits[axis] = next.limits[axis];
    std::vector<Value> parts = m.op.operands;
    parts[i] = emit_slice(m, x, std::move(joined));
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return m.build().concat(parts, static_cast<int>(axis));
  }
  return {};
}

/// A concatenation of copies of one value becomes a broadcast, which moves no data. The gradient of a sum of
/// equal parts has such a concatenation.
Value concat_of_same(const Match& m) {
  const std::vector<Value>& parts = m.op.operands;
  if (parts.size() < 2 ||
      !std::all_of(parts.begin(), parts.end(), [&](Value part) { return part == parts[0]; }))
    return {};
  const std::size_t axis = index(normal_axis(m.op.attributes.get_int("axis"), m.type().rank()));
  const auto at = static_cast<std::ptrdiff_t>(axis);
  const Shape whole = m.shape();
  Shape single = m.shape(m[0]);
  single.insert(single.begin() + at, 1);
  Shape grown = single;
  grown[axis] = static_cast<std::int64_t>(parts.size());
  const Value x = m.build().reshape(m[0], std::move(single));
  return m.build().reshape(m.build().broadcast(x, grown), whole);
}

/// An operand of an add that is x padded with zeros.
struct ZeroPadded {
  Value x;
  Ints low, high;
};

std::optional<ZeroPadded> zero_padded(const Match& m, Value value) {
  const Op* op = m.as(value, pad);
  if (op == nullptr || op->attributes.get_double("value") != 0) return std::nullopt;
  return ZeroPadded{op->operands[0], op->attributes.get_ints("low"), op->attributes.get_ints("high")};
}

/// The paddings differ along one axis only, and there the first part ends where the second begins. The
/// gradient of splitting a tensor has such a sum.
Value sum_of_pads(const Match& m) {
  std::optional<ZeroPadded> a = zero_padded(m, m[0]), b = zero_padded(m, m[1]);
  if (!a || !b) return {};
  std::optional<std::size_t> axis;
  for (std::size_t i = 0; i < a->low.size(); ++i) {
    if (a->low[i] == b->low[i] && a->high[i] == b->high[i]) continue;
    if (axis) return {};
    axis = i;
  }
  if (!axis) return {};
  if (a->low[*axis] > b->low[*axis]) std::swap(a, b);
  if (a->low[*axis] + m.shape(a->x)[*axis] != b->low[*axis]) return {};
  const Value parts[] = {a->x, b->x};
  a->high[*axis] = b->high[*axis];
  const Value joined = m.build().concat(parts, static_cast<int>(*axis));
  return m.build().emit(pad, {joined}, {{"low", a->low}, {"high", a->high}});
}

/// The gradient of a table that a product reads too is the sum of both.
Value sum_of_scatter(const Match& m) {
  for (const std::size_t k : {0, 1}) {
    const Op* scatter = m.as(m[k], scatter_add);
    if (scatter == nullptr || !m.is(scatter->operands[0], 0) || m.type(m[1 - k]) != m.type()) continue;
    const Value operands[] = {m[1 - k], scatter->operands[1], scatter->operands[2]};
    const Attributes attributes = scatter->attributes;
    return m.build().emit(scatter_add, operands, attributes);
  }
  return {};
}

/// A shape op on operands that are one number everywhere gives that number everywhere.
Value shape_of_splat(const Match& m) {
  const std::optional<double> a = m.splat(m[0]);
  if (!a) return {};
  for (Value operand : m.op.operands) {
    if (m.splat(operand) != a) return {};
  }
  if (m.op.code == pad && m.op.attributes.get_double("value") != *a) return {};
  return m.constant(*a);
}

}  // namespace

std::vector<Rule> shape_rules() {
  using M = const Match&;
  return {
      // reshape, broadcast or slice to x's own shape = x
      {"same_shape", {reshape, broadcast, slice}, same_shape},
      // reshape(reshape(x)) = reshape(x),  broadcast(broadcast(x)) = broadcast(x)
      {"skip_inner", {reshape, broadcast}, skip_inner},
      // f(a) = a for a constant a
      {"shape_of_constant", {reshape, transpose, broadcast, slice, pad, concat}, shape_of_splat},

      // transpose(transpose(x, p), q) = transpose(x, p[q])
      {"transpose_of_transpose", {transpose}, transpose_of_transpose},
      // transpose(x) = reshape(x), or x itself, if only extents of 1 change their place
      {"transpose_is_reshape", {transpose}, transpose_is_reshape},
      // transpose(broadcast(x)) = broadcast(transpose(x))
      {"transpose_of_broadcast", {transpose}, transpose_of_broadcast},

      // slice(slice(x)) = slice(x)
      {"slice_of_slice", {slice}, slice_of_slice},
      // slice(concat(…, x, …)) = slice(x) within x
      {"slice_of_concat", {slice}, slice_of_concat},
      // slice(pad(x)) = slice(x) within x
      {"slice_of_pad", {slice}, slice_of_pad},
      // slice(broadcast(x)) = broadcast(x) along grown axes
      {"slice_of_broadcast", {slice}, slice_of_broadcast},

      // pad(x) by nothing = x
      {"pad_by_nothing",
       {pad},
       [](M m) {
         const Attributes& a = m.op.attributes;
         return all_zero(a.get_ints("low")) && all_zero(a.get_ints("high")) ? m[0] : Value{};
       }},
      // pad(pad(x, a), a) = pad(x, a)
      {"pad_of_pad", {pad}, pad_of_pad},

      // concat(x) = x
      {"concat_one", {concat}, [](M m) { return m.op.operands.size() == 1 ? m[0] : Value{}; }},
      // concat(concat(x, y), z) = concat(x, y, z) along one axis
      {"concat_of_concat", {concat}, concat_of_concat},
      // concat(slice(x, a:b), slice(x, b:c)) = slice(x, a:c)
      {"concat_of_slices", {concat}, concat_of_slices},
      // concat(x, x) = reshape(broadcast(x))
      {"concat_of_same", {concat}, concat_of_same},
      // pad(x, 0) + pad(y, 0) = pad(concat(x, y), 0), where y begins where x ends
      {"sum_of_pads", {add}, sum_of_pads},
      // x + scatter_add(0, index, u) = scatter_add(x, index, u)
      {"sum_of_scatter", {add}, sum_of_scatter},
  };
}

}  // namespace rewire::ir
