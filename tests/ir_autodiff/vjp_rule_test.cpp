// Gradients where differences cannot look: ties, edges of the domain, indices that repeat or fall outside,
// and the form a gradient must have to be fast.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "ir/autodiff/autodiff.h"
#include "ir/builder.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "ir/verify.h"
#include "tests/support/catch.h"

namespace rewire::ir {
namespace {

struct Rule {
  Module module;
  Function& function;
  Builder b;

  Rule() : function(module.functions.emplace_back()), b(module, function) {
    module.name = "test";
    function.name = "f";
  }
  Value argument(std::string_view name, Shape shape, DType dtype = DType::f64) {
    return b.argument(name, {dtype, std::move(shape)});
  }
  /// The gradients, at `arguments`, of sum(y g), where g counts 1, 2, 3, … through y.
  std::vector<std::vector<double>> gradients(Value y, const std::vector<Value>& wrt,
                                             const std::vector<Tensor>& arguments) {
    const TensorType type = b.type(y);
    Doubles count(static_cast<std::size_t>(type.elements()));
    for (std::size_t i = 0; i < count.size(); ++i) count[i] = static_cast<double>(i + 1);
    const Value g = b.emit(Opcode::constant, {}, {{"values", count}}, type);
    Ints axes;
    for (int axis = 0; axis < type.rank(); ++axis) axes.push_back(axis);
    const Value loss = b.reshape(b.sum(b.mul(y, g), axes), {});
    const std::vector<Value> gradients = differentiate(b, loss, wrt);
    for (std::size_t i = 0; i < wrt.size(); ++i) b.result("d" + std::to_string(i), gradients[i]);
    verify(module);
    EvalState state;
    std::vector<std::vector<double>> numbers;
    for (Tensor& tensor : evaluate(module, function, arguments, state))
      numbers.push_back(std::move(tensor.data));
    return numbers;
  }
};

Tensor tensor(Shape shape, std::vector<double> values, DType dtype = DType::f64) {
  return Tensor({dtype, std::move(shape)}, std::move(values));
}

using Numbers = std::vector<double>;

TEST_CASE("max shares its gradient evenly among ties") {
  Rule rule;
  const Value x = rule.argument("x", {2, 3});
  const auto d = rule.gradients(rule.b.max(x, {1}), {x}, {tensor({2, 3}, {5, 5, 5, 1, 7, 7})});
  CHECK(d[0][0] == Approx(1.0 / 3));
  CHECK(d[0][1] == Approx(1.0 / 3));
  CHECK(d[0][2] == Approx(1.0 / 3));
  CHECK(Numbers(d[0].begin() + 3, d[0].end()) == Numbers{0, 1, 1});
}

TEST_CASE("maximum and minimum give the winner all, and each half at a tie") {
  Rule rule;
  const Value p = rule.argument("p", {3}), q = rule.argument("q", {3});
  const Value y = rule.b.concat(
      std::array{rule.b.binary(Opcode::maximum, p, q), rule.b.binary(Opcode::minimum, p, q)}, 0);
  const auto d = rule.gradients(y, {p, q}, {tensor({3}, {1, 2, 3}), tensor({3}, {2, 2, 2})});
  CHECK(d[0] == Numbers{4, 1 + 2.5, 3});  // p wins the minimum first, then ties, then wins the maximum
  CHECK(d[1] == Numbers{1, 1 + 2.5, 6});
}

TEST_CASE("relu has the gradient 0 at 0") {
  Rule rule;
  const Value x = rule.argument("x", {3});
  const auto d = rule.gradients(rule.b.unary(Opcode::relu, x), {x}, {tensor({3}, {-2, 0, 2})});
  CHECK(d[0] == Numbers{0, 0, 3});
}

TEST_CASE("abs has the gradient 0 at 0") {
  Rule rule;
  const Value x = rule.argument("x", {3});
  const auto d = rule.gradients(rule.b.unary(Opcode::abs, x), {x}, {tensor({3}, {-2, 0, 2})});
  CHECK(d[0] == Numbers{-1, 0, 3});
}

TEST_CASE("pow is finite at a zero base, a zero exponent and a negative base") {
  Rule rule;
  const Value x = rule.argument("x", {5}), p = rule.argument("p", {5});
  const auto d = rule.gradients(rule.b.binary(Opcode::pow, x, p), {x, p},
                                {tensor({5}, {0, 0, 0, -2, -3}), tensor({5}, {0, 1, 2, 3, -1})});
  CHECK(d[0] == Numbers{0, 2, 0, 4 * 3 * 4.0, 5 * -1.0 / 9});  // g p x^(p-1)
  CHECK(d[1] == Numbers{0, 0, 0, 0, 0});
}

TEST_CASE("slice with strides puts the gradient where the elements came from") {
  // The last step may end before, at, or beyond what one more stride would reach.
  const auto [extent, start, limit, stride] = GENERATE(
      table<int, int, int, int>({{7, 0, 7, 2}, {7, 1, 6, 2}, {8, 1, 8, 3}, {9, 2, 3, 4}, {6, 5, 6, 5}}));
  CAPTURE(extent, start, limit, stride);
  Rule rule;
  const Value x = rule.argument("x", {extent, 2});
  const Value y =
      rule.b.emit(Opcode::slice, {x},
                  {{"starts", Ints{start, 1}}, {"limits", Ints{limit, 2}}, {"strides", Ints{stride, 1}}});
  const auto d = rule.gradients(y, {x}, {tensor({extent, 2}, Numbers(static_cast<std::size_t>(extent) * 2))});
  Numbers expected(static_cast<std::size_t>(extent) * 2);
  for (int i = start, k = 1; i < limit; i += stride, ++k) expected[static_cast<std::size_t>(i) * 2 + 1] = k;
  CHECK(d[0] == expected);
}

TEST_CASE("slice with strides along several axes at once") {
  Rule rule;
  const Value x = rule.argument("x", {3, 5});
  const Value y = rule.b.emit(Opcode::slice, {x},
                              {{"starts", Ints{0, 1}}, {"limits", Ints{3, 5}}, {"strides", Ints{2, 3}}});
  const auto d = rule.gradients(y, {x}, {tensor({3, 5}, Numbers(15))});
  CHECK(d[0] == Numbers{0, 1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 3, 0, 0, 4});
}

TEST_CASE("gather adds the gradients of an index that repeats, and clamps as the forward does") {
  Rule rule;
  const Value x = rule.argument("x", {3, 2}), k = rule.argument("k", {4}, DType::i64);
  const auto d = rule.gradients(rule.b.emit(Opcode::gather, {x, k}, {{"axis", std::int64_t{0}}}), {x},
                                {tensor({3, 2}, Numbers(6)), tensor({4}, {2, 0, 2, 9}, DType::i64)});
  CHECK(d[0] == Numbers{3, 4, 0, 0, 1 + 5 + 7, 2 + 6 + 8});
}

TEST_CASE("scatter_add passes the base its gradient and each update that of its target") {
  Rule rule;
  const Value base = rule.argument("base", {3}), k = rule.argument("k", {4}, DType::i32);
  const Value updates = rule.argument("updates", {4});
  const auto d = rule.gradients(
      rule.b.emit(Opcode::scatter_add, {base, k, updates}, {{"axis", std::int64_t{0}}}), {base, updates},
      {tensor({3}, {0, 0, 0}), tensor({4}, {1, 1, -5, 8}, DType::i32), tensor({4}, Numbers(4))});
  CHECK(d[0] == Numbers{1, 2, 3});
  CHECK(d[1] == Numbers{2, 2, 1, 3});
}

TEST_CASE("gather and scatter_add with a list of indices for each sample send gradients along each list") {
  const Attributes attributes = {{"axis", std::int64_t{1}}};
  const Tensor x = tensor({2, 3}, Numbers(6)), k = tensor({2, 2}, {2, 2, 0, 9}, DType::i32);
  Rule gather;
  const Value from = gather.argument("x", {2, 3});
  const Value picked =
      gather.b.emit(Opcode::gather, {from, gather.argument("k", {2, 2}, DType::i32)}, attributes);
  CHECK(gather.gradients(picked, {from}, {x, k})[0] == Numbers{0, 0, 1 + 2, 3, 0, 4});
  Rule scatter;
  const Value base = scatter.argument("x", {2, 3}), at = scatter.argument("k", {2, 2}, DType::i32);
  const Value updates = scatter.argument("updates", {2, 2});
  const Value sums = scatter.b.emit(Opcode::scatter_add, {base, at, updates}, attributes);
  const auto d = scatter.gradients(sums, {base, updates}, {x, k, tensor({2, 2}, Numbers(4))});
  CHECK(d[0] == Numbers{1, 2, 3, 4, 5, 6});
  CHECK(d[1] == Numbers{3, 3, 4, 6});
}

TEST_CASE("sort sends each gradient back to the element it moved, along any axis, ties in place") {
  Rule rule;
  const Value x = rule.argument("x", {3, 2});
  const std::vector<Value> sorted =
      rule.b.emit_all(Opcode::sort, std::array{x}, {{"axis", std::int64_t{-2}}});
  // Columns (2, 1, 2) and (9, 8, 7) sort to (1, 2, 2) and (7, 8, 9); g is 1 3 5 and 2 4 6 down the columns.
  const auto d = rule.gradients(sorted[0], {x}, {tensor({3, 2}, {2, 9, 1, 8, 2, 7})});
  CHECK(d[0] == Numbers{3, 6, 1, 4, 5, 2});
}

TEST_CASE("a weight shared by a batch gets its gradient from one long contraction") {
  const bool transpose_b = GENERATE(false, true);
  Rule rule;
  const Value x = rule.argument("x", {4, 5, 3});
  const Value w = transpose_b ? rule.argument("w", {2, 3}) : rule.argument("w", {3, 2});
  const Value y = rule.b.matmul(x, w, false, transpose_b);
  const std::size_t forward = rule.function.body.size();
  rule.gradients(y, {w}, {tensor({4, 5, 3}, Numbers(60)), tensor(rule.b.shape(w), Numbers(6))});
  std::vector<const Op*> products;
  for (std::size_t i = forward; i < rule.function.body.size(); ++i) {
    if (rule.function.body[i].code == Opcode::matmul) products.push_back(&rule.function.body[i]);
  }
  REQUIRE(products.size() == 1);
  CHECK(rule.b.shape(products[0]->operands[0]).size() == 2);
  CHECK(rule.b.shape(products[0]->operands[0])[0] == 20);
  CHECK(rule.b.shape(products[0]->results[0]) == rule.b.shape(w));
}

TEST_CASE("dropout draws the same mask again for its gradient") {
  const Opcode code = GENERATE(Opcode::dropout, Opcode::drop_path);
  const double training = GENERATE(0.0, 1.0);
  Rule rule;
  const Value x = rule.argument("x", {64, 2, 3});
  const Value seed = rule.argument("seed", {}, DType::i64), step = rule.argument("step", {}, DType::i64);
  const Value is_training = rule.argument("training", {}, DType::i1);
  const Value y = rule.b.emit(code, {x, seed, step, is_training},
                              {{"probability", 0.25}, {"stream", std::string("here")}});
  rule.b.result("y", y);
  const auto d = rule.gradients(y, {x},
                                {tensor({64, 2, 3}, Numbers(384, 1.0)), tensor({}, {11}, DType::i64),
                                 tensor({}, {3}, DType::i64), tensor({}, {training}, DType::i1)});
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < 384; ++i) {
    // With x = 1 the forward is the factor itself, and dx = g factor.
    CHECK(d[1][i] == Approx(d[0][i] * static_cast<double>(i + 1)));
    if (d[0][i] == 0.0) ++dropped;
  }
  CHECK((dropped > 0) == (training == 1.0));
}

TEST_CASE("a residual join sends its cotangent to its terms alone") {
  Rule rule;
  const Shape shape{1, 2, 3};
  const Value stream = rule.argument("stream", shape), branch = rule.argument("branch", shape);
  const Value input = rule.argument("input", shape), path = rule.argument("path", shape);
  const Attributes facts = {{"block", std::int64_t{0}},      {"site", std::string("mlp")},
                            {"join_index", std::int64_t{0}}, {"join_count", std::int64_t{1}},
                            {"has_shortcut", false},         {"shortcut_owner", std::string("test")}};
  const Value y = rule.b.emit(Opcode::residual, {stream, branch, input, branch, path, path}, facts);
  const Tensor zeros = tensor(shape, Numbers(6));
  const auto d = rule.gradients(y, {stream, branch, input, path}, {zeros, zeros, zeros, zeros});
  CHECK(d[0] == Numbers(6, 0.0));  // read beside, and its slot is cleared
  CHECK(d[1] == Numbers{1, 2, 3, 4, 5, 6});
  CHECK(d[2] == Numbers(6, 0.0));
  CHECK(d[3] == Numbers{2, 4, 6, 8, 10, 12});  // stands as two paths
}

TEST_CASE("gelu and softmax have the gradients of the textbook far out, without a NaN") {
  Rule rule;
  const Value x = rule.argument("x", {4});
  const Value gelu = rule.b.unary(Opcode::gelu, x);
  const Value y = rule.b.concat(std::array{gelu, rule.b.unary(Opcode::softmax, rule.b.mul(x, 20.0))}, 0);
  const auto d = rule.gradients(y, {x}, {tensor({4}, {-60, -1, 0, 60})});
  CHECK(d[0][0] == Approx(0).margin(1e-12));
  // cdf(-1) - pdf(-1), times g = 2
  CHECK(d[0][1] == Approx(2 * (0.15865525393145707 - 0.24197072451914337)));
  CHECK(d[0][2] == Approx(3 * 0.5));
  CHECK(d[0][3] == Approx(4));
}

}  // namespace
}  // namespace rewire::ir
