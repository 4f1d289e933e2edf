// What formulas mean beyond the strategies that they spell out: names, lists, draws, hooks, element types.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/residual.h"
#include "ir/text.h"
#include "tests/plugins/strategy.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/residual_net.h"

namespace rewire::test {
namespace {

using ir::DType;
using ir::Tensor;

constexpr JoinAxes kMaps{.batch = 0, .token = 2, .channel = 1};

/// What one join makes of a stream and a branch.
std::vector<double> computed(const std::string& values, const Tensor& x, const Tensor& f, JoinAxes axes = {},
                             bool training = false) {
  const std::string spec = "formula:" + values;
  const ir::Module module = rewritten(single_join(x.type, axes), {spec});
  ir::EvalState state = to_eval_state(started(module, {spec}));
  state.training = training;
  return ir::evaluate(module, module.function("forward"), {x, f}, state).at(0).data;
}

std::vector<std::string> streams(const ir::Module& module) {
  std::vector<std::string> names;
  for (const ir::Op& op : module.function("forward").body)
    if (op.code == ir::Opcode::random_uniform) names.push_back(op.attributes.get_string("stream"));
  return names;
}

std::size_t draws(const std::string& values) {
  return streams(rewritten(residual_net({}), {"formula:" + values})).size();
}

TEST_CASE("A formula computes the same for tokens and for feature maps") {
  const ir::TensorType tokens{DType::f64, {2, 6, 4}}, maps{DType::f64, {2, 4, 2, 3}};
  const auto turned = [&](const Tensor& from) {
    Tensor to(maps);
    for (std::size_t n = 0; n < 2; ++n)
      for (std::size_t t = 0; t < 6; ++t)
        for (std::size_t c = 0; c < 4; ++c) to.data[(n * 4 + c) * 6 + t] = from.data[(n * 6 + t) * 4 + c];
    return to;
  };
  const Tensor x = sample(tokens, 0.3), f = sample(tokens, 1.1);
  for (
      const char* values :
      {R"~(join="x + f - dot(x, f) / (dot(x, x) + 1e-6) * x")~", R"~(sum="layer_norm(x + f)")~",
       R"~(sum="x + softmax(f, tokens) - mean(f, sample) + max(x, tokens)")~",
       R"~(weights="w[d] = uniform(-1, 1); v[d, d] = normal(1)",sum="matmul(x, v) + w * f")~",
       R"~(weights="w[d] = uniform(-1, 1); c[d] = normal(1)",sum="layer_norm(f, w, 2 * c) / norm(x, sample)")~",
       R"~(weights="w[4] = uniform(-1, 1)",sum="x + (1 + w) * f + w")~"}) {
    CAPTURE(values);
    const std::vector<double> of_tokens = computed(values, x, f);
    Tensor result(tokens);
    std::ranges::copy(of_tokens, result.data.begin());
    const Tensor want = turned(result);
    const std::vector<double> got = computed(values, turned(x), turned(f), kMaps);
    for (std::size_t i = 0; i < got.size(); ++i)
      CHECK(got[i] == Approx(want.data[i]).epsilon(1e-12).margin(1e-12));
  }
}

TEST_CASE("drop keeps the branch in evaluation, and whole samples of it in training") {
  const ir::TensorType type{DType::f64, {64, 2, 3}};
  const Tensor x(type), f = sample(type, 1.1);
  CHECK(computed(R"~(join="x + drop(0.5) * f")~", x, f) == std::vector<double>(f.data.begin(), f.data.end()));
  const std::vector<double> y = computed(R"~(join="x + drop(0.5) * f")~", x, f, {}, true);
  std::size_t dropped = 0;
  for (std::size_t n = 0; n < 64; ++n) {
    const bool is_zero = y[n * 6] == 0;
    dropped += is_zero ? 1 : 0;
    for (std::size_t i = n * 6; i < n * 6 + 6; ++i) CHECK(y[i] == (is_zero ? 0 : 2 * f.data[i]));
  }
  CHECK(dropped > 16);
  CHECK(dropped < 48);
}

TEST_CASE("Draws are per join or per block, and of the axes that are asked for") {
  CHECK(draws(R"~(join="x + uniform(sample) * f")~") == 4);
  CHECK(draws(R"~(join="x + uniform(sample, block) * f")~") == 2);
  CHECK(draws(R"~(join="x + drop(0.2, block) * f")~") == 2);
  CHECK(draws(R"~(join="x + normal() * f")~") == 8);
  // A name of let is one draw, whoever reads it.
  CHECK(draws(R"~(let="u = uniform(sample)",norm_input="u * x",change_branch="u * it")~") == 4);
  const auto type_of = [](const std::string& call) {
    const ir::Module module = rewritten(residual_net({}), {"formula:join=\"x + " + call + " * f\""});
    for (const ir::Op& op : module.function("forward").body)
      if (op.code == ir::Opcode::random_uniform)
        return module.function("forward").type(op.results.front()).shape;
    return ir::Shape{};
  };
  CHECK(type_of("uniform()") == ir::Shape{1, 1, 1});
  CHECK(type_of("uniform(sample)") == ir::Shape{2, 1, 1});
  CHECK(type_of("drop(0.5, block)") == ir::Shape{2, 1, 1});
  CHECK(type_of("uniform(tokens, block)") == ir::Shape{2, 3, 1});
  CHECK(type_of("uniform(channels)") == ir::Shape{2, 1, 4});
}

TEST_CASE("Blanks do not change a random stream, another formula does") {
  const auto of = [](const std::string& formula) {
    return streams(rewritten(residual_net({}), {"formula:join=\"" + formula + "\""}));
  };
  CHECK(of("x + drop(0.2) * f") == of("x  +  drop( 0.2 )*f"));
  CHECK(of("x + drop(0.2) * f") != of("x + drop(0.3) * f"));
  const std::vector<std::string> both =
      streams(rewritten(residual_net({}), {R"~(formula:change_branch="drop(0.2) * it")~",
                                           R"~(formula:change_branch="drop(0.5) * it")~"}));
  CHECK(std::set(both.begin(), both.end()).size() == both.size());
}

/// The op that computes the value of the result of the join at `place`.
const ir::Op& join_of(const ir::Module& module, std::size_t place) {
  return module.function("forward").body.at(ir::find_joins(module.function("forward")).at(place));
}

TEST_CASE("out holds the sums of blocks as join sets them, and x0 the embedding wherever filters begin") {
  // The second block passes on what the first made, so the network is the first block.
  const ir::Module two = rewritten(residual_net({}),
                                   {R"~(formula:join="b == 0 ? 0.5 * x + 0.5 * f : out[1]")~"}),
                   one = rewritten(residual_net({.depth = 1}), {R"~(formula:join="0.5 * x + 0.5 * f")~"});
  const Tensor image = sample(two.function("forward").type(two.function("forward").arguments.at(0).value));
  ir::EvalState state = to_eval_state(started(two, {}));
  for (auto& [name, tensor] : state.tensors) tensor = sample(tensor.type, 0.7);
  CHECK(ir::evaluate(two, two.function("forward"), {image}, state).at(0).data ==
        ir::evaluate(one, one.function("forward"), {image}, state).at(0).data);
  const ir::Module late = rewritten(residual_net({}), {R"~(formula:join="x0 + f",layers=1)~"});
  CHECK(ir::read_join(join_of(late, 2)).shortcut == late.function("forward").arguments.at(0).value);
}

TEST_CASE("exit with 'it' changes what the other formulas made, and without it replaces them") {
  const ir::TensorType type{DType::f64, {2, 2, 3}};
  const Tensor x = sample(type, 0.3), f = sample(type, 1.1);
  const auto check = [&](const std::string& values, double of_x, double of_f) {
    CAPTURE(values);
    const std::vector<double> y = computed(values, x, f);
    for (std::size_t i = 0; i < y.size(); ++i)
      CHECK(y[i] == Approx(of_x * x.data[i] + of_f * f.data[i]).margin(1e-12));
  };
  check(R"~(join="x + 0.5 * f",exit="4 * it")~", 4, 2);
  check(R"~(join="x + 0.5 * f",exit="4 * (x + f)")~", 4, 4);
  check(R"~(change_sum="2 * it",exit="0.25 * it")~", 0.5, 0.5);
  check(R"~(join="x + 0.5 * f",at=last)~", 1, 0.5);
}

TEST_CASE("A name of let that reads k is computed for each weight of a list") {
  const std::string spec =
      R"~(formula:at=block,let="s = k == K ? 1 : 0.25",weights="alpha[out] = s",change_sum="weighted(out, alpha)")~";
  const runtime::TensorMap state = started(rewritten(residual_net({}), {spec}), {spec});
  CHECK(runtime::to_double(state.at("blocks.0.join_mlp.alpha_0")).data ==
        Tensor({DType::f32, {1}}, {0.25}).data);
  CHECK(runtime::to_double(state.at("blocks.0.join_mlp.alpha_1")).data ==
        Tensor({DType::f32, {1}}, {1}).data);
}

TEST_CASE("A weight is added only at joins that read it") {
  const ir::Module module =
      rewritten(residual_net({}), {R"~(formula:weights="a = 1",join="l == 0 ? x + a * f : x + f")~"});
  CHECK(module.find_parameter("blocks.0.join_attn.a") != nullptr);
  CHECK(module.find_parameter("blocks.0.join_mlp.a") == nullptr);
}

TEST_CASE("A frozen weight that only after reads is each join's own") {
  const ir::Module module = rewritten(
      residual_net({}),
      {R"~(formula:weights="a = 1; cap = 1, frozen",join="a * x + f",after="a = minimum(a, cap)")~"});
  for (const char* join :
       {"blocks.0.join_attn", "blocks.0.join_mlp", "blocks.1.join_attn", "blocks.1.join_mlp"})
    CHECK(module.find_parameter(std::string(join) + ".cap") != nullptr);
}

TEST_CASE("Terms of one channel grow to the shape of a weight that they meet") {
  CHECK_NOTHROW(rewritten(
      residual_net({}),
      {R"~(formula:weights="g[channels] = 1",join="x + weighted(branches, mean(branches) * g) * f")~"}));
}

TEST_CASE("init sets weights by their role, from their values, the joins' numbers and draws") {
  const auto weights = [](const std::string& values, const std::string& name) {
    const std::string spec = "formula:" + values;
    const auto state = started(rewritten(residual_net({}), {spec}), {spec}, 3);
    const Tensor tensor = runtime::to_double(state.at(name));
    const std::vector<double> data(tensor.data.begin(), tensor.data.end());
    return data;
  };
  const std::string proj = "blocks.1.attn.proj.weight";
  const std::vector<double> plain = weights(R"~(join="x + f")~", proj),
                            half = weights(R"~(init="proj = it / (b + 1)")~", proj);
  for (std::size_t i = 0; i < plain.size(); ++i) CHECK(half[i] == Approx(plain[i] / 2));
  for (const double value : weights(R"~(init="last = 0")~", proj)) CHECK(value == 0);
  // Draws of different texts differ.
  const std::vector<double> difference = weights(R"~(let="a = normal()",init="proj = normal() - a")~", proj);
  CHECK(std::ranges::any_of(difference, [](double value) { return value != 0; }));
}

TEST_CASE(
    "A draw of the block makes the joins of a block orthogonal as often as orthogonal's probability does") {
  /// The net's output in each training step.
  const auto outputs = [](const std::vector<std::string>& specs, int steps) {
    const ir::Module module = rewritten(residual_net({}), specs);
    ir::EvalState state = to_eval_state(started(module, specs, 7));
    state.training = true;
    const ir::Function& forward = module.function("forward");
    const Tensor x = sample(forward.type(forward.arguments.at(0).value));
    std::vector<std::vector<double>> all;
    for (int step = 0; step < steps; ++step) {
      if (const auto counter = state.tensors.find("train.step"); counter != state.tensors.end())
        counter->second.data = {static_cast<double>(step)};
      all.push_back(ir::evaluate(module, forward, {x}, state).at(0).data);
    }
    return all;
  };
  // Two blocks: neither, the first, the second or both are orthogonal, whole blocks only.
  const std::vector<std::vector<std::string>> patterns = {
      {}, {"orthogonal:layers=0"}, {"orthogonal:layers=1"}, {"orthogonal"}};
  std::map<std::vector<double>, std::size_t> pattern_of;
  for (std::size_t i = 0; i < patterns.size(); ++i) pattern_of[outputs(patterns[i], 1)[0]] = i;
  REQUIRE(pattern_of.size() == patterns.size());
  constexpr int kSteps = 1200;
  constexpr double p = 0.3;
  const std::string formula =
      R"~(formula:join="x + (uniform(block) < 0.3 ? f - dot(x, f) / (dot(x, x) + 1e-6) * x : f)")~";
  for (const std::string& spec : {formula, std::string("orthogonal:probability=0.3")}) {
    std::vector<int> counts(patterns.size(), 0);
    for (const std::vector<double>& output : outputs({spec}, kSteps)) ++counts[pattern_of.at(output)];
    const double expected[] = {(1 - p) * (1 - p), p * (1 - p), (1 - p) * p, p * p};
    for (std::size_t i = 0; i < counts.size(); ++i) {
      CAPTURE(spec, i, counts[i]);
      const double deviation = std::sqrt(expected[i] * (1 - expected[i]) / kSteps);
      CHECK(std::abs(counts[i] / double{kSteps} - expected[i]) < 4 * deviation);
    }
  }
}

TEST_CASE("Sums of a narrow stream are computed in f32") {
  const ir::TensorType type{DType::bf16, {2, 3, 4}};
  for (const char* formula :
       {"norm(f) * x", "dot(x, f) * x", "layer_norm(f)", "weighted(branches, softmax(dot(branches, x)))"}) {
    CAPTURE(formula);
    const ir::Module module = rewritten(single_join(type), {std::string("formula:sum=\"") + formula + "\""});
    const ir::Function& forward = module.function("forward");
    for (const ir::Op& op : forward.body) {
      if (op.code == ir::Opcode::sum || op.code == ir::Opcode::exp)
        CHECK(forward.type(op.operands.at(0)).dtype == DType::f32);
    }
    CHECK(forward.type(forward.result("y")).dtype == DType::bf16);
  }
}

}  // namespace
}  // namespace rewire::test
