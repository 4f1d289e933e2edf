// canonicalise's rules for reductions and contractions. A sum has no fixed order, so merging two sums
// changes only roundings, not the meaning.
#include <algorithm>

#include "ir/opcodes.h"
#include "ir/ops/axes.h"
#include "ir/passes/canonicalise_rules.h"
#include "ir/tensor.h"

namespace rewire::ir {
namespace {

using enum Opcode;

Ints axes_of(const Op& op, int rank) {
  const std::vector<int> axes = normal_axes(op.attributes.get_ints("axes"), rank);
  return {axes.begin(), axes.end()};
}

Value reduce(const Match& m, Value x, Ints axes) {
  if (axes.empty()) return x;
  return m.build().emit(m.op.code, {x}, {{"axes", std::move(axes)}});
}

/// Reduces only axes with extents above 1, counted from the front, in ascending order.
Value plain_axes(const Match& m) {
  Ints axes = axes_of(m.op, m.type().rank());
  std::erase_if(axes, [&](std::int64_t axis) { return m.shape(m[0])[static_cast<std::size_t>(axis)] == 1; });
  if (axes == m.op.attributes.get_ints("axes")) return {};
  return reduce(m, m[0], std::move(axes));
}

Value reduce_of_reduce(const Match& m) {
  const Op* inner = m.as(m[0], m.op.code);
  if (inner == nullptr) return {};
  const Value x = inner->operands[0];
  Ints axes = axes_of(m.op, m.type().rank());
  for (std::int64_t axis : axes_of(*inner, m.type().rank())) axes.push_back(axis);
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return reduce(m, x, std::move(axes));
}

/// The axes are reduced where they are in memory: a sum of columns stays one.
Value reduce_of_transpose(const Match& m) {
  const Op* inner = m.as(m[0], transpose);
  if (inner == nullptr) return {};
  const Value x = inner->operands[0];
  const Ints permutation = inner->attributes.get_ints("permutation");
  const int rank = m.type().rank();
  Ints axes;
  for (std::int64_t axis : axes_of(m.op, rank)) {
    axes.push_back(normal_axis(permutation[static_cast<std::size_t>(axis)], rank));
  }
  std::sort(axes.begin(), axes.end());
  return m.build().transpose(reduce(m, x, std::move(axes)), permutation);
}

/// The sum over axes that the broadcast grew is a multiple; the maximum over them is the element itself.
Value reduce_of_broadcast(const Match& m) {
  const Value x = m.inside(m[0], broadcast);
  if (!x) return {};
  const Shape from = m.shape(x), grown = m.shape(m[0]);
  Ints rest;
  double copies = 1;
  for (std::int64_t axis : axes_of(m.op, m.type().rank())) {
    const auto i = static_cast<std::size_t>(axis);
    if (from[i] == grown[i]) {
      rest.push_back(axis);
    } else {
      copies *= static_cast<double>(grown[i]);
    }
  }
  if (copies == 1) return {};
  const TensorType type = m.type();
  Value y = reduce(m, x, std::move(rest));
  if (m.op.code == sum) y = m.build().mul(y, copies);
  return m.build().broadcast(y, type.shape);
}

Value sum_of_negative(const Match& m) {
  const Value x = m.inside(m[0], neg);
  if (!x || !is_float(m.type().dtype)) return {};
  return m.build().emit(neg, {reduce(m, x, axes_of(m.op, m.type().rank()))}, {});
}

/// sum of a = n a, max of a = a, for a constant a.
Value reduce_of_splat(const Match& m) {
  const std::optional<double> a = m.splat(m[0]);
  if (!a) return {};
  const auto count = static_cast<double>(m.type(m[0]).elements() / m.type().elements());
  const double value = m.op.code == sum ? *a * count : *a;
  if (!holds(m.type().dtype, value)) return {};
  return m.constant(value);
}

Value argmax_of_one(const Match& m) {
  return m.type() == TensorType{DType::i32, m.shape(m[0])} ? m.constant(0) : Value{};
}

/// Whether the op swaps its operand's last two axes and moves no other.
bool swaps_matrix(const Op* op, int rank) {
  if (op == nullptr || rank < 2) return false;
  const Ints& permutation = op->attributes.get_ints("permutation");
  for (int i = 0; i < rank; ++i) {
    const int expected = i == rank - 2 ? rank - 1 : i == rank - 1 ? rank - 2 : i;
    if (normal_axis(permutation[static_cast<std::size_t>(i)], rank) != expected) return false;
  }
  return true;
}

/// A transpose of matmul's operand becomes the attribute transpose_a or transpose_b.
Value matmul_of_transpose(const Match& m) {
  std::vector<Value> operands = m.op.operands;
  Attributes attributes = m.op.attributes;
  for (std::size_t i = 0; i < 2; ++i) {
    if (!swaps_matrix(m.as(m[i], transpose), m.type(m[i]).rank())) continue;
    operands[i] = m.inside(m[i], transpose);
    const char* flag = i == 0 ? "transpose_a" : "transpose_b";
    attributes.set(flag, !attributes.get_bool(flag));
  }
  if (operands == m.op.operands) return {};
  return m.build().emit(matmul, operands, std::move(attributes));
}

}  // namespace

std::vector<Rule> reduce_rules() {
  return {
      // sum over [-1, 0] = sum over [0, 1];  over an axis of extent 1: x
      {"reduce_axes", {sum, max}, plain_axes},
      // sum(sum(x, A), B) = sum(x, A ∪ B), and the same for max
      {"reduce_of_reduce", {sum, max}, reduce_of_reduce},
      // sum(transpose(x, p), A) = transpose(sum(x, p[A]), p), and the same for max
      {"reduce_of_transpose", {sum, max}, reduce_of_transpose},
      // sum(broadcast x) = n · sum(x) over the axes that did not grow, max(broadcast x) = max(x) over them
      {"reduce_of_broadcast", {sum, max}, reduce_of_broadcast},
      // sum(-x) = -sum(x), floats
      {"sum_of_negative", {sum}, sum_of_negative},
      // sum(a, …) = n · a,  max(a, …) = a
      {"reduce_of_constant", {sum, max}, reduce_of_splat},
      // argmax over an extent of 1 = 0
      {"argmax_of_one", {argmax}, argmax_of_one},
      // transpose(x) y = matmul(x, y, transpose_a), for either operand
      {"matmul_of_transpose", {matmul}, matmul_of_transpose},
  };
}

}  // namespace rewire::ir
