// What differentiate() itself does: which ops it visits, how cotangents meet, what it refuses.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "ir/autodiff/autodiff.h"
#include "ir/builder.h"
#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "ir/verify.h"
#include "tests/support/catch.h"

namespace rewire::ir {
namespace {

struct Program {
  Module module;
  Function& function;

  Program() : function(module.functions.emplace_back()) {
    module.name = "test";
    function.name = "f";
  }
  Builder builder() { return Builder(module, function); }
  /// Every named result, by the function as it stands.
  std::vector<Tensor> run(const std::vector<Tensor>& arguments) {
    verify(module);
    EvalState state;
    return evaluate(module, function, arguments, state);
  }
};

Value total(Builder& b, Value x) {
  Ints axes;
  for (int axis = 0; axis < b.type(x).rank(); ++axis) axes.push_back(axis);
  return b.reshape(b.sum(x, axes), {});
}

Tensor vector_of(std::vector<double> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return Tensor({DType::f64, {size}}, std::move(values));
}

std::size_t count_ops(const Function& function, Opcode code) {
  return static_cast<std::size_t>(std::count_if(function.body.begin(), function.body.end(),
                                                [&](const Op& op) { return op.code == code; }));
}

TEST_CASE("cotangents of a value that is used three times add up") {
  Program p;
  Builder b = p.builder();
  const Value x = b.argument("x", {DType::f64, {2}});
  // L = sum(x x + 3 x + exp(x)): dL/dx = 2x + 3 + exp(x)
  const Value loss = total(b, b.add(b.add(b.mul(x, x), b.mul(x, 3.0)), b.unary(Opcode::exp, x)));
  b.result("dx", differentiate(b, loss, std::array{x})[0]);
  const Tensor dx = p.run({vector_of({0.5, -2.0})})[0];
  CHECK(dx.data[0] == Approx(2 * 0.5 + 3 + std::exp(0.5)).epsilon(1e-14));
  CHECK(dx.data[1] == Approx(2 * -2.0 + 3 + std::exp(-2.0)).epsilon(1e-14));
}

TEST_CASE("an operand that stands twice in one op gets both gradients") {
  Program p;
  Builder b = p.builder();
  const Value x = b.argument("x", {DType::f64, {3}});
  const Value loss = total(b, b.concat(std::array{x, x, b.mul(x, 2.0)}, 0));
  b.result("dx", differentiate(b, loss, std::array{x})[0]);
  CHECK(p.run({vector_of({1, 2, 3})})[0].data == std::vector<double>{4, 4, 4});
}

TEST_CASE("the gradient of an intermediate value is its whole cotangent, and flow goes on below it") {
  Program p;
  Builder b = p.builder();
  const Value x = b.argument("x", {DType::f64, {2}});
  const Value y = b.mul(x, 5.0);
  const Value loss = total(b, b.mul(y, y));
  const std::vector<Value> gradients = differentiate(b, loss, std::array{y, x});
  b.result("dy", gradients[0]);
  b.result("dx", gradients[1]);
  const std::vector<Tensor> out = p.run({vector_of({1, -2})});
  CHECK(out[0].data == std::vector<double>{10, -20});   // 2 y
  CHECK(out[1].data == std::vector<double>{50, -100});  // 2 y 5
}

TEST_CASE("the loss is its own gradient's one, and a value that does not reach it gets a zero constant") {
  Program p;
  Builder b = p.builder();
  const Value x = b.argument("x", {DType::f64, {2}});
  const Value unused = b.argument("unused", {DType::f32, {2, 3}});
  const Value loss = total(b, x);
  const std::vector<Value> gradients = differentiate(b, loss, std::array{loss, unused, x});
  CHECK(b.type(gradients[1]) == TensorType{DType::f32, {2, 3}});
  b.result("dloss", gradients[0]);
  b.result("dunused", gradients[1]);
  const std::vector<Tensor> out = p.run({vector_of({1, 2}), Tensor({DType::f32, {2, 3}})});
  CHECK(out[0].scalar() == 1.0);
  CHECK(out[1].data == std::vector<double>(6, 0.0));
}

TEST_CASE("nothing flows through stop_gradient, floor, compare and integers") {
  Program p;
  Builder b = p.builder();
  const Value x = b.argument("x", {DType::f64, {2}});
  const Value stopped = b.unary(Opcode::stop_gradient, b.mul(x, x));
  const Value floored = b.unary(Opcode::floor, x);
  const Value through_integer = b.cast(b.cast(x, DType::i32), DType::f64);
  const Value truth = b.cast(b.compare("gt", x, b.constant(0.0, DType::f64, {2})), DType::f64);
  const Value loss = total(b, b.add(b.add(stopped, floored), b.add(through_integer, truth)));
  const std::size_t before = p.function.body.size();
  b.result("dx", differentiate(b, loss, std::array{x})[0]);
  CHECK(p.function.body.size() == before + 1);  // the zero constant alone
  CHECK(p.run({vector_of({1.5, -2.5})})[0].data == std::vector<double>{0, 0});
}

TEST_CASE("stop_gradient cuts one path and leaves the other") {
  Program p;
  Builder b = p.builder();
  const Value x = b.argument("x", {DType::f64, {2}});
  const Value loss = total(b, b.mul(x, b.unary(Opcode::stop_gradient, x)));
  b.result("dx", differentiate(b, loss, std::array{x})[0]);
  CHECK(p.run({vector_of({3, -4})})[0].data == std::vector<double>{3, -4});  // not 2 x
}

TEST_CASE("an integer argument gets a zero of its own type") {
  Program p;
  Builder b = p.builder();
  const Value x = b.argument("x", {DType::f64, {2}});
  const Value k = b.argument("k", {DType::i32, {2}});
  const Value loss = total(b, b.mul(x, b.cast(k, DType::f64)));
  const std::vector<Value> gradients = differentiate(b, loss, std::array{k, x});
  CHECK(b.type(gradients[0]) == TensorType{DType::i32, {2}});
}

TEST_CASE("only ops on the way from wrt to the loss are differentiated") {
  Program p;
  Builder b = p.builder();
  const Value x = b.argument("x", {DType::f64, {4, 3}});
  const Value w = b.argument("w", {DType::f64, {3, 2}});
  const Value beside = b.unary(Opcode::sin, x);  // depends on x, does not reach the loss
  const Value loss = total(b, b.matmul(b.unary(Opcode::exp, x), w));
  b.result("beside", beside);
  b.result("dw", differentiate(b, loss, std::array{w})[0]);
  CHECK(count_ops(p.function, Opcode::matmul) == 2);  // the forward and dw; no product for x
  CHECK(count_ops(p.function, Opcode::exp) == 1);
  CHECK(count_ops(p.function, Opcode::cos) == 0);
}

TEST_CASE("cotangents of values that need none are not added up") {
  Program p;
  Builder b = p.builder();
  const Value x = b.argument("x", {DType::f64, {2}});
  const Value w = b.argument("w", {DType::f64, {2}});
  const Value loss = total(b, b.add(b.add(w, x), x));
  b.result("dw", differentiate(b, loss, std::array{w})[0]);
  CHECK(count_ops(p.function, Opcode::add) == 2);  // the forward's
}

TEST_CASE("gradient ops stand after the forward body and carry its locations") {
  Program p;
  Builder b = p.builder();
  const Value x = b.argument("x", {DType::f64, {2}});
  Value y;
  {
    Builder::Scope scope(b, "blocks.0");
    y = b.unary(Opcode::exp, x);
  }
  const Value loss = total(b, y);
  const std::size_t forward = p.function.body.size();
  b.set_position(0);
  b.set_location("elsewhere");
  b.result("dx", differentiate(b, loss, std::array{x})[0]);
  CHECK(b.location() == "elsewhere");
  bool found = false;
  for (std::size_t i = forward; i < p.function.body.size(); ++i) {
    if (p.function.body[i].code == Opcode::mul) found = p.function.body[i].location == "blocks.0.grad";
  }
  CHECK(found);
  CHECK(p.run({vector_of({0, 0})})[0].data == std::vector<double>{1, 1});
}

TEST_CASE("a loss that is no float scalar is refused") {
  Program p;
  Builder b = p.builder();
  const Value x = b.argument("x", {DType::f64, {2}});
  CHECK_THROWS_WITH(differentiate(b, x, std::array{x}), REWIRE_CATCH_CONTAINS("f64[2], not a float scalar"));
}

TEST_CASE("an op whose gradient is not written is refused by name") {
  Program p;
  Builder b = p.builder();
  const TensorType type{DType::f64, {1, 1, 2, 2}};
  const Value q = b.argument("q", type);
  const std::vector<Value> forward = b.emit_all(Opcode::attention, std::array{q, q, q}, {{"scale", 1.0}});
  const std::vector<Value> second =
      b.emit_all(Opcode::attention_grad, std::array{q, q, q, forward[0], forward[1], q}, {{"scale", 1.0}});
  const Value loss = total(b, second[0]);
  CHECK_THROWS_AS(differentiate(b, loss, std::array{q}), InternalError);
  CHECK_THROWS_WITH(differentiate(b, loss, std::array{q}), REWIRE_CATCH_CONTAINS("attention_grad"));
}

TEST_CASE("differentiating twice gives the second derivative") {
  Program p;
  Builder b = p.builder();
  const Value x = b.argument("x", {DType::f64, {2}});
  const Value loss = total(b, b.mul(x, b.mul(x, x)));
  const Value slope = differentiate(b, loss, std::array{x})[0];
  b.result("curvature", differentiate(b, total(b, slope), std::array{x})[0]);
  const Tensor curvature = p.run({vector_of({0.5, -3})})[0];
  CHECK(curvature.data[0] == Approx(6 * 0.5));
  CHECK(curvature.data[1] == Approx(6 * -3.0));
}

}  // namespace
}  // namespace rewire::ir
