// One small network that holds most kinds of ops at once, its gradients against differences.
#include <array>
#include <cmath>
#include <random>
#include <string>

#include "ir/builder.h"
#include "ir/opcodes.h"
#include "tests/ir_autodiff/gradient_check.h"
#include "tests/support/catch.h"

namespace rewire::ir {
namespace {

constexpr std::int64_t kBatch = 3, kTokens = 5, kDim = 8, kHeads = 2, kClasses = 4;

class Network {
 public:
  Network() : function_(module_.functions.emplace_back()), b_(module_, function_) {
    module_.name = "network";
    function_.name = "forward";
    build();
  }
  const Module& module() const { return module_; }

  std::vector<Tensor> random_arguments(std::uint64_t seed) const {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal(0.0, 0.5);
    std::vector<Tensor> arguments;
    for (const Argument& argument : function_.arguments) {
      Tensor tensor(function_.type(argument.value));
      for (double& value : tensor.data) {
        if (argument.name == "labels" || argument.name == "order") {
          value = static_cast<double>(random() % kClasses);
        } else if (tensor.type.dtype == DType::i1) {
          value = 1;
        } else if (is_integer(tensor.type.dtype)) {
          value = static_cast<double>(seed + 5);
        } else {
          value = normal(random);
        }
      }
      arguments.push_back(std::move(tensor));
    }
    return arguments;
  }

 private:
  Value weight(const std::string& name, Shape shape) {
    return b_.argument(name, {DType::f64, std::move(shape)});
  }

  void build() {
    const Value image = weight("image", {kBatch, 1, 4, 4});
    const Value labels = b_.argument("labels", {DType::i64, {kBatch}});
    order_ = b_.argument("order", {DType::i32, {kTokens}});
    seed_ = b_.argument("seed", {DType::i64, {}});
    step_ = b_.argument("step", {DType::i64, {}});
    training_ = b_.argument("training", {DType::i1, {}});
    Value x = embed(image);
    for (std::int64_t block = 0; block < 2; ++block) x = attention_block(x, block);
    x = odd_block(x);
    x = mlp_block(x);
    const Value logits = head(x);
    const Value loss = b_.emit(Opcode::cross_entropy, {logits, labels}, {{"label_smoothing", 0.1}});
    b_.result("loss", b_.mean(loss, {0}));
    b_.result("logits", logits);
  }

  /// 2x2 patches of a 4x4 image, a class token, a gathered position embedding.
  Value embed(Value image) {
    Value patches = b_.reshape(image, {kBatch, 2, 2, 2, 2});
    patches = b_.reshape(b_.transpose(patches, {0, 1, 3, 2, 4}), {kBatch, 4, 4});
    patches = b_.linear(patches, weight("patch.weight", {kDim, 4}), weight("patch.bias", {kDim}));
    const Value token = b_.broadcast(weight("cls", {1, 1, kDim}), {kBatch, 1, kDim});
    const Value positions = b_.emit(Opcode::gather, {weight("positions", {1, kTokens, kDim}), order_},
                                    {{"axis", std::int64_t{1}}});
    return dropped(Opcode::dropout, b_.add(b_.concat(std::array{token, patches}, 1), positions), "embed");
  }

  Value dropped(Opcode code, Value x, const std::string& stream) {
    return b_.emit(code, {x, seed_, step_, training_}, {{"probability", 0.2}, {"stream", stream}});
  }

  Value norm(Value x, const std::string& name) {
    return b_.emit(Opcode::layer_norm, {x, weight(name + ".weight", {kDim}), weight(name + ".bias", {kDim})});
  }

  Value join(Value stream, Value branch, Value input, std::vector<Value> paths) {
    std::vector<Value> operands = {stream, branch, input, stream, branch};
    operands.insert(operands.end(), paths.begin(), paths.end());
    const std::int64_t index = joins_++;
    return b_.emit(Opcode::residual, operands,
                   {{"block", index},
                    {"site", std::string("attn")},
                    {"join_index", index},
                    {"join_count", std::int64_t{3}}});
  }

  Value attention_block(Value x, std::int64_t block) {
    const std::string name = "attn" + std::to_string(block);
    const Value input = norm(x, name + ".norm");
    const Value qkv =
        b_.linear(input, weight(name + ".qkv", {3 * kDim, kDim}), weight(name + ".qkv_bias", {3 * kDim}));
    const Value heads =
        b_.transpose(b_.reshape(qkv, {kBatch, kTokens, 3, kHeads, kDim / kHeads}), {2, 0, 3, 1, 4});
    std::array<Value, 3> parts;
    for (int i = 0; i < 3; ++i)
      parts[static_cast<std::size_t>(i)] =
          b_.reshape(b_.slice(heads, 0, i, i + 1), {kBatch, kHeads, kTokens, kDim / kHeads});
    const Value mixed = b_.emit_all(Opcode::attention, parts, {{"scale", 0.5}})[0];
    const Value merged = b_.reshape(b_.transpose(mixed, {0, 2, 1, 3}), {kBatch, kTokens, kDim});
    const Value branch =
        dropped(Opcode::drop_path, b_.linear(merged, weight(name + ".proj", {kDim, kDim})), name);
    return join(x, branch, input, {b_.unary(Opcode::tanh, input)});
  }

  /// What no model has, but a strategy may write.
  Value odd_block(Value x) {
    const Value squares = b_.sum(b_.mul(x, x), {-1});
    const Value unit = b_.mul(x, b_.unary(Opcode::rsqrt, b_.add(squares, 0.1)));
    const Value powered = b_.binary(Opcode::pow, b_.add(squares, 1.0), b_.constant(0.3, DType::f64));
    const Value strided = b_.emit(
        Opcode::slice, {unit},
        {{"starts", Ints{0, 0, 1}}, {"limits", Ints{kBatch, kTokens, kDim}}, {"strides", Ints{1, 1, 2}}});
    const Value padded =
        b_.emit(Opcode::pad, {strided}, {{"low", Ints{0, 0, 1}}, {"high", Ints{0, 0, kDim / 2 - 1}}});
    const Value sorted = b_.emit_all(Opcode::sort, std::array{x}, {{"axis", std::int64_t{1}}})[0];
    const Value scattered =
        b_.emit(Opcode::scatter_add, {sorted, order_, padded}, {{"axis", std::int64_t{1}}});
    const Value signs = b_.compare("gt", x, b_.constant(0.0, DType::f64));
    const Value chosen = b_.select(signs, b_.unary(Opcode::sin, x), b_.unary(Opcode::silu, x));
    const Value gate = b_.unary(Opcode::softmax, b_.max(x, {1}));
    const Value ratio = b_.div(b_.unary(Opcode::log, powered), b_.unary(Opcode::sqrt, b_.add(squares, 0.5)));
    return b_.add(b_.add(x, b_.mul(scattered, 0.3)), b_.mul(b_.mul(chosen, gate), ratio));
  }

  Value mlp_block(Value x) {
    const Value input = norm(x, "mlp.norm");
    const Value hidden = b_.linear(input, weight("fc1", {2 * kDim, kDim}), weight("fc1_bias", {2 * kDim}));
    const Value gelu = b_.emit(Opcode::gelu, {hidden}, {{"approximate", std::string("tanh")}});
    const Value branch =
        b_.linear(b_.add(gelu, b_.unary(Opcode::gelu, hidden)), weight("fc2", {kDim, 2 * kDim}));
    return join(x, branch, input, {});
  }

  Value head(Value x) {
    const Value token = b_.reshape(b_.slice(norm(x, "last"), 1, 0, 1), {kBatch, kDim});
    const Value pooled = b_.reshape(b_.mean(x, {1}), {kBatch, kDim});
    const Value both = b_.mul(token, b_.unary(Opcode::sigmoid, pooled));
    return b_.linear(both, weight("head", {kClasses, kDim}), weight("head_bias", {kClasses}));
  }

  Module module_;
  Function& function_;
  Builder b_;
  Value order_, seed_, step_, training_;
  std::int64_t joins_ = 0;
};

TEST_CASE("every gradient of a small network agrees with differences") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(range(1, 6)));
  const Network network;
  const std::vector<Tensor> arguments = network.random_arguments(seed);
  for (const testing::ArgumentGradient& gradient :
       testing::compare_gradients(network.module(), "forward", arguments, EvalState{}, seed, 24)) {
    CAPTURE(seed, gradient.argument);
    CHECK(gradient.relative_error() < 1e-6);
  }
}

}  // namespace
}  // namespace rewire::ir
