// Composites against their equations, written out or composed of smaller ops.
#include <cmath>
#include <limits>
#include <numbers>

#include "ir/opcodes.h"
#include "tests/ir/run_op.h"
#include "tests/support/catch.h"

using namespace rewire::ir;
using namespace rewire::testing;

namespace {

using Values = std::vector<double>;

/// log of the softmax of one row, straight from its definition.
Values log_softmax(const Values& row) {
  double total = 0;
  for (double x : row) total += std::exp(x);
  Values result;
  for (double x : row) result.push_back(x - std::log(total));
  return result;
}

double dot(const Values& a, const Values& b) {
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return total;
}

}  // namespace

TEST_CASE("layer_norm: (x - mean) / sqrt(var + epsilon) * weight + bias, biased variance") {
  const std::int64_t width = 7;
  const Tensor x = random_f32({2, 3, width}, 21);
  const Tensor weight = random_f32({width}, 22);
  const Tensor bias = random_f32({width}, 23);
  const double epsilon = 0.01;
  Values plain;
  Values scaled;
  Values affine;
  for (std::size_t row = 0; row < 6; ++row) {
    double first = 0;
    double second = 0;
    for (std::size_t i = 0; i < 7; ++i) {
      const double value = x.data[row * 7 + i];
      first += value / 7;
      second += value * value / 7;
    }
    const double variance = second - first * first;  // E[x^2] - E[x]^2
    for (std::size_t i = 0; i < 7; ++i) {
      plain.push_back((x.data[row * 7 + i] - first) / std::sqrt(variance + epsilon));
      scaled.push_back(plain.back() * weight.data[i]);
      affine.push_back(scaled.back() + bias.data[i]);
    }
  }
  CHECK(distance(values_of(Opcode::layer_norm, {x}, {{"epsilon", epsilon}}), plain) < 1e-13);
  CHECK(distance(values_of(Opcode::layer_norm, {x, weight}, {{"epsilon", epsilon}}), scaled) < 1e-13);
  CHECK(distance(values_of(Opcode::layer_norm, {x, weight, bias}, {{"epsilon", epsilon}}), affine) < 1e-13);
}

TEST_CASE("layer_norm of one element is its bias") {
  CHECK(values_of(Opcode::layer_norm, {f32({2, 1}, {5, -3}), f32({1}, {2}), f32({1}, {0.25})}) ==
        Values{0.25, 0.25});
}

TEST_CASE("softmax is exp over the sum of exps along its axis, whatever is added to all") {
  const Tensor x = random_f32({2, 3, 4}, 31);
  Values expected(24);
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t k = 0; k < 4; ++k) {
      double total = 0;
      for (std::size_t j = 0; j < 3; ++j) total += std::exp(x.data[(i * 3 + j) * 4 + k]);
      for (std::size_t j = 0; j < 3; ++j) {
        const std::size_t at = (i * 3 + j) * 4 + k;
        expected[at] = std::exp(x.data[at]) / total;
      }
    }
  }
  CHECK(distance(values_of(Opcode::softmax, {x}, {{"axis", std::int64_t{1}}}), expected) < 1e-14);
  Tensor shifted = x;
  for (double& value : shifted.data) value += 1000;
  CHECK(distance(values_of(Opcode::softmax, {shifted}, {{"axis", std::int64_t{-2}}}), expected) < 1e-12);
}

TEST_CASE("gelu is x times the normal distribution function, or its tanh form") {
  // Phi(1) and Phi(-2), to ten digits.
  CHECK(distance(values_of(Opcode::gelu, {f32({4}, {0, 1, -2, 10})}),
                 {0, 0.8413447461, -2 * 0.0227501319, 10}) < 1e-9);
  const Tensor x = random_f32({50}, 41);
  Values expected;
  for (double v : x.data) {
    const double inner = std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * std::pow(v, 3));
    expected.push_back(v / (1 + std::exp(-2 * inner)));  // (1 + tanh(u)) / 2 = sigmoid(2 u)
  }
  const Values approximate = values_of(Opcode::gelu, {x}, {{"approximate", std::string("tanh")}});
  CHECK(distance(approximate, expected) < 1e-14);
  CHECK(distance(approximate, values_of(Opcode::gelu, {x})) < 1e-3);
  CHECK(distance(approximate, values_of(Opcode::gelu, {x})) > 1e-6);
}

TEST_CASE("silu is x sigmoid(x)") {
  const Tensor x = random_f32({20}, 43);
  const Values gate = values_of(Opcode::sigmoid, {x});
  Values expected;
  for (std::size_t i = 0; i < 20; ++i) expected.push_back(x.data[i] * gate[i]);
  CHECK(distance(values_of(Opcode::silu, {x}), expected) < 1e-15);
}

TEST_CASE("relu is the larger of x and 0, and passes NaN on") {
  const double infinity = std::numeric_limits<double>::infinity();
  const Values y = values_of(Opcode::relu, {f32({6}, {-2, 0, 3, -infinity, infinity, std::nan("")})});
  CHECK(Values(y.begin(), y.end() - 1) == Values{0, 0, 3, 0, infinity});
  CHECK(std::isnan(y.back()));
}

TEST_CASE("max_pool leaves its padding out and passes NaN on, avg_pool counts zeros") {
  const double infinity = std::numeric_limits<double>::infinity();
  const Attributes windows = {{"kernel", Ints{1, 2}}, {"strides", Ints{1, 2}}, {"padding", Ints{0, 1}}};
  CHECK(values_of(Opcode::max_pool, {f32({1, 1, 1, 4}, {-3, -1, -2, -5})}, windows) == Values{-3, -1, -5});
  CHECK(values_of(Opcode::max_pool, {f32({1, 1, 1, 4}, {-infinity, infinity, 1, 2})}, windows) ==
        Values{-infinity, infinity, 2});
  const Values y = values_of(Opcode::max_pool, {f32({1, 1, 1, 4}, {5, std::nan(""), 7, 1})}, windows);
  CHECK((y[0] == 5 && std::isnan(y[1]) && y[2] == 1));
  CHECK(values_of(Opcode::avg_pool, {f32({1, 1, 1, 4}, {-3, -1, -2, -5})}, windows) ==
        Values{-1.5, -1.5, -2.5});
}

TEST_CASE("cross_entropy is minus the target's mean of log-softmax, smoothed or not") {
  const Tensor logits = random_f32({4, 5}, 51);
  const Values labels = {0, 4, 2, 2};
  for (double smoothing : {0.0, 0.1, 0.5}) {
    CAPTURE(smoothing);
    Values expected;
    for (std::size_t b = 0; b < 4; ++b) {
      const Values row = log_softmax({logits.data.begin() + static_cast<std::ptrdiff_t>(b * 5),
                                      logits.data.begin() + static_cast<std::ptrdiff_t>(b * 5 + 5)});
      double loss = -(1 - smoothing) * row[static_cast<std::size_t>(labels[b])];
      for (double entry : row) loss -= smoothing / 5 * entry;
      expected.push_back(loss);
    }
    const Tensor loss =
        run_op(Opcode::cross_entropy, {logits, i32({4}, labels)}, {{"label_smoothing", smoothing}})[0];
    CHECK(loss.type == TensorType{DType::f32, {4}});
    CHECK(distance(loss.data, expected) < 1e-14);
    CHECK(values_of(Opcode::cross_entropy, {logits, i64({4}, labels)}, {{"label_smoothing", smoothing}}) ==
          loss.data);
  }
}

TEST_CASE("cross_entropy of huge logits stays finite") {
  CHECK(distance(values_of(Opcode::cross_entropy, {f32({2, 2}, {5000, 0, 0, 5000}), i64({2}, {0, 0})}),
                 {0, 5000}) < 1e-9);
}

TEST_CASE("attention is softmax(scale q k^T) v, with the log of the sums of exps") {
  for (const std::int64_t keys : {5, 3, 1}) {
    CAPTURE(keys);
    const std::vector<Tensor> qkv = {random_f32({2, 3, 5, 4}, 61), random_f32({2, 3, keys, 4}, 62),
                                     random_f32({2, 3, keys, 4}, 63)};
    const std::vector<Tensor> whole = run_op(Opcode::attention, qkv, {{"scale", 0.5}});
    const std::vector<Tensor> parts = run(qkv, [](Builder& b, const std::vector<Value>& x) {
      const Value logits = b.mul(b.matmul(x[0], x[1], false, true), 0.5);
      const Value output = b.matmul(b.emit(Opcode::softmax, {logits}), x[2]);
      const Value log_sum_exp = b.unary(Opcode::log, b.sum(b.unary(Opcode::exp, logits), {-1}));
      return std::vector<Value>{output, log_sum_exp};
    });
    REQUIRE(whole.size() == 2);
    CHECK(whole[0].type == parts[0].type);
    CHECK(whole[1].type == TensorType{DType::f32, {2, 3, 5, 1}});
    CHECK(distance(whole[0].data, parts[0].data) < 1e-13);
    CHECK(distance(whole[1].data, parts[1].data) < 1e-13);
  }
}

TEST_CASE("attention keeps the log-sum-exp of 16-bit operands in f32") {
  const Tensor x({DType::bf16, {1, 1, 2, 2}}, {1, 0, 0, 1});
  const std::vector<Tensor> results = run_op(Opcode::attention, {x, x, x}, {{"scale", 1.0}});
  CHECK(results[0].type.dtype == DType::bf16);
  CHECK(results[1].type == TensorType{DType::f32, {1, 1, 2, 1}});
}

TEST_CASE("attention_grad is the derivative of attention, by central differences") {
  const Attributes attributes = {{"scale", 0.7}};
  std::vector<Tensor> qkv = {random_f32({1, 2, 4, 3}, 71), random_f32({1, 2, 5, 3}, 72),
                             random_f32({1, 2, 5, 3}, 73)};
  const Tensor weight = random_f32({1, 2, 4, 3}, 74);
  std::vector<Tensor> operands = qkv;
  for (Tensor& result : run_op(Opcode::attention, qkv, attributes)) operands.push_back(std::move(result));
  operands.push_back(weight);
  const std::vector<Tensor> gradients = run_op(Opcode::attention_grad, operands, attributes);
  REQUIRE(gradients.size() == 3);
  for (std::size_t which = 0; which < 3; ++which) {
    CHECK(gradients[which].type == qkv[which].type);
    for (std::size_t i = 0; i < qkv[which].data.size(); ++i) {
      CAPTURE(which, i);
      const double step = 1e-5;
      const double saved = qkv[which].data[i];
      qkv[which].data[i] = saved + step;
      const double above = dot(values_of(Opcode::attention, qkv, attributes), weight.data);
      qkv[which].data[i] = saved - step;
      const double below = dot(values_of(Opcode::attention, qkv, attributes), weight.data);
      qkv[which].data[i] = saved;
      CHECK(gradients[which].data[i] == Approx((above - below) / (2 * step)).margin(1e-8));
    }
  }
}
