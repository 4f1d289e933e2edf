// VJP of matmul. With A [m, k] and B [k, n] as they enter the product C = A B, and G = dL/dC: dA = G B^T,
// dB = A^T G. If an operand is stored transposed, the rule swaps the factors of the product to get the
// transposed gradient. It emits a transpose op only if the shapes do not allow that.
#include <utility>

#include "ir/ops/functions.h"
#include "ir/ops/op_info.h"

namespace rewire::ir {
namespace {

Value swap_last_two(Builder& b, Value x) {
  const int rank = b.type(x).rank();
  Ints permutation;
  for (int i = 0; i < rank; ++i) permutation.push_back(i);
  std::swap(permutation[permutation.size() - 1], permutation[permutation.size() - 2]);
  return b.transpose(x, permutation);
}

/// Returns [..., r, c] as [rows, c]: all leading axes become one.
Value flatten_rows(Builder& b, Value x) {
  const Shape shape = b.shape(x);
  return b.reshape(x, {element_count(shape) / shape.back(), shape.back()});
}

struct Transposes {
  bool a = false;
  bool b = false;
};

Value gradient_of_a(Builder& b, Value left, Value right, Value g, Transposes transposed) {
  if (!transposed.a) return b.matmul(g, right, false, !transposed.b);                              // G B^T
  if (b.type(left).rank() == b.type(right).rank()) return b.matmul(right, g, transposed.b, true);  // B G^T
  return swap_last_two(b, b.matmul(g, right, false, !transposed.b));  // a shared B can only be at the right
}

/// All leading axes of A share one B. Its gradient is one long contraction over batch and rows together.
Value gradient_of_shared_b(Builder& b, Value left, Value g, Transposes transposed) {
  const Value rows = flatten_rows(b, transposed.a ? swap_last_two(b, left) : left);
  const Value row_gradients = flatten_rows(b, g);
  return transposed.b ? b.matmul(row_gradients, rows, true, false)
                      : b.matmul(rows, row_gradients, true, false);
}

Value gradient_of_b(Builder& b, Value left, Value right, Value g, Transposes transposed) {
  if (b.type(left).rank() != b.type(right).rank()) return gradient_of_shared_b(b, left, g, transposed);
  return transposed.b ? b.matmul(g, left, true, transposed.a)     // G^T A
                      : b.matmul(left, g, !transposed.a, false);  // A^T G
}

}  // namespace

void vjp_matmul(VjpContext& c) {
  const Transposes transposed{c.op.attributes.get_bool("transpose_a"),
                              c.op.attributes.get_bool("transpose_b")};
  const Value left = c.operand(0), right = c.operand(1), g = c.cotangent();
  if (c.needs(0)) c.accumulate(0, gradient_of_a(c.builder, left, right, g, transposed));
  if (c.needs(1)) c.accumulate(1, gradient_of_b(c.builder, left, right, g, transposed));
}

}  // namespace rewire::ir
