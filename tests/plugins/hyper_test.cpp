// Hyper-connections: the weights and where they start, what the lanes become, and that the constrained form
// keeps their sum.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/error.h"
#include "ir/module.h"
#include "tests/plugins/strategy.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/residual_net.h"

namespace rewire::test {
namespace {

std::map<std::string, ir::Parameter> added(const std::string& spec, const std::string& join) {
  std::map<std::string, ir::Parameter> result;
  const ir::Module module = rewritten(residual_net({.depth = 3}), {spec});
  for (const ir::Parameter& parameter : module.parameters) {
    if (parameter.name.find(join + ".") == 0) result[parameter.name.substr(join.size() + 1)] = parameter;
  }
  return result;
}

std::vector<double> values(const ir::Parameter& parameter) {
  return {parameter.init.values.begin(), parameter.init.values.end()};
}

TEST_CASE("The weights start as the papers say") {
  // Join 5 of 3 lanes reads lane 5 mod 3.
  const std::string join = "blocks.2.join_mlp";
  auto weights = added("hyper:kind=static,lanes=3", join);
  CHECK(weights.size() == 2);
  CHECK(weights.at("alpha").type.shape == ir::Shape{3, 4});
  CHECK(values(weights.at("alpha")) == std::vector<double>{0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1});
  CHECK(weights.at("beta").init == ir::Init{ir::InitKind::ones});
  CHECK_FALSE(weights.at("alpha").decay);
  CHECK_FALSE(weights.at("beta").decay);

  weights = added("hyper:lanes=3", join);
  CHECK(weights.size() == 6);
  CHECK(weights.at("alpha_fn").type.shape == ir::Shape{4, 4});
  CHECK(weights.at("beta_fn").type.shape == ir::Shape{4, 1});
  for (const char* name : {"alpha_fn", "beta_fn"}) {
    CHECK(weights.at(name).init == ir::Init{ir::InitKind::zeros});
    CHECK(weights.at(name).decay);
  }
  for (const char* name : {"alpha_scale", "beta_scale"}) {
    CHECK(weights.at(name).init == ir::Init{ir::InitKind::constant, 0.01, 0});
    CHECK_FALSE(weights.at(name).decay);
  }

  weights = added("hyper:kind=mhc,lanes=2", join);
  CHECK(weights.size() == 3);
  CHECK(weights.at("phi").type.shape == ir::Shape{8, 8});
  CHECK(weights.at("phi").init == ir::Init{ir::InitKind::zeros});
  CHECK(weights.at("phi").decay);
  CHECK(values(weights.at("bias")) == std::vector<double>{-4, 4, 0, 0, 0, -8, -8, 0});
  CHECK(weights.at("scale").init == ir::Init{ir::InitKind::constant, 0.01, 0});

  // The first permutation is the identity, the second swaps the lanes.
  weights = added("hyper:kind=mhc_lite,lanes=2", join);
  CHECK(weights.at("phi").type.shape == ir::Shape{8, 6});
  CHECK(values(weights.at("bias")) == std::vector<double>{-1, 1, -1, 1, 0, -8});
  CHECK(added("hyper:kind=mhc_lite,lanes=4", join).at("phi").type.shape == ir::Shape{16, 32});
  CHECK(message_of<UserError>([] { rewritten(residual_net({}), {"hyper:kind=mhc_lite,lanes=6"}); }) ==
        "plugin 'hyper': kind=mhc_lite weighs all permutations of the lanes, so lanes is at most 5");
}

ir::Tensor output(const ir::Module& module, ir::EvalState state) {
  const ir::Function& forward = module.function("forward");
  return ir::evaluate(module, forward, {sample(forward.type(forward.arguments.at(0).value))}, state).at(0);
}

TEST_CASE("Hyper-connections start as the plain network, with n times its stream") {
  const std::string kind = GENERATE(as<std::string>{}, "static", "dynamic");
  const std::string lanes = GENERATE(as<std::string>{}, "1", "2", "4");
  const std::string spec = "hyper:kind=" + kind + ",lanes=" + lanes;
  const ir::Module plain = residual_net({.depth = 3}), module = rewritten(plain, {spec});
  const ir::Tensor want = output(plain, to_eval_state(started(plain, {}, 7)));
  const ir::Tensor got = output(module, to_eval_state(started(module, {spec}, 7)));
  // To the last bit: zeros add nothing, and n is a power of two.
  for (std::size_t i = 0; i < want.data.size(); ++i) CHECK(got.data[i] == std::stod(lanes) * want.data[i]);
}

/// The weights of a rewritten net whose branches add a constant to every element, and the others as they
/// are.
ir::EvalState constant_branches(const ir::Module& module, const std::string& spec) {
  ir::EvalState state = to_eval_state(started(module, {spec}));
  double constant = 0.3;
  for (auto& [name, tensor] : state.tensors) {
    if (name.find(".join_") != std::string::npos) continue;
    std::ranges::fill(tensor.data,
                      name.ends_with("proj.bias") || name.ends_with("fc2.bias") ? constant += 0.4 : 0);
  }
  return state;
}

const std::vector<std::string> kJoins = {"blocks.0.attn.proj", "blocks.0.mlp.fc2", "blocks.1.attn.proj",
                                         "blocks.1.mlp.fc2"};

std::string join_of(const std::string& layer) {
  return layer.substr(0, 9) + "join_" + (layer.find("attn") != std::string::npos ? "attn." : "mlp.");
}

TEST_CASE("A lane becomes the weighted sum of all lanes, and its share of the branch") {
  const std::string spec = "hyper:kind=static,lanes=3";
  const ir::Module module = rewritten(residual_net({.depth = 2}), {spec});
  ir::EvalState state = constant_branches(module, spec);
  double phase = 0;
  for (auto& [name, tensor] : state.tensors) {
    if (name.find(".join_") != std::string::npos) tensor = sample(tensor.type, ++phase);
  }
  // Every lane is s x + t.
  std::vector<std::pair<double, double>> lanes(3, {1, 0});
  for (const std::string& layer : kJoins) {
    const double f = state.tensors.at(layer + ".bias").data[0];
    const std::vector<double>&alpha = state.tensors.at(join_of(layer) + "alpha").data,
          &beta = state.tensors.at(join_of(layer) + "beta").data;
    std::vector<std::pair<double, double>> next(3, {0, 0});
    for (std::size_t j = 0; j < 3; ++j) {
      for (std::size_t i = 0; i < 3; ++i) {
        next[j].first += alpha[i * 4 + j + 1] * lanes[i].first;
        next[j].second += alpha[i * 4 + j + 1] * lanes[i].second;
      }
      next[j].second += beta[j] * f;
    }
    lanes = next;
  }
  const ir::Function& forward = module.function("forward");
  const ir::Tensor x = sample(forward.type(forward.arguments.at(0).value)), y = output(module, state);
  const double s = lanes[0].first + lanes[1].first + lanes[2].first;
  const double t = lanes[0].second + lanes[1].second + lanes[2].second;
  for (std::size_t i = 0; i < x.data.size(); ++i) CHECK(y.data[i] == Approx(s * x.data[i] + t).margin(1e-13));
}

TEST_CASE("Mixed by doubly stochastic matrices, the lanes keep their sum, but for what branches add") {
  const bool lite = GENERATE(false, true);
  const std::string spec = lite ? "hyper:kind=mhc_lite" : "hyper:kind=mhc,iterations=200";
  const std::size_t outputs = lite ? 32 : 24;
  const ir::Module module = rewritten(residual_net({.depth = 2}), {spec});
  ir::EvalState state = constant_branches(module, spec);
  double phase = 0;
  for (auto& [name, tensor] : state.tensors) {
    if (name.find(".join_") != std::string::npos) tensor = sample(tensor.type, ++phase);
  }
  // The shares of the branch do not depend on the lanes where their part of phi is zero.
  for (auto& [name, tensor] : state.tensors) {
    if (!name.ends_with(".phi")) continue;
    for (std::size_t i = 0; i < tensor.data.size(); ++i) {
      if (i % outputs >= 4 && i % outputs < 8) tensor.data[i] = 0;
    }
  }
  double added_by_branches = 0;
  for (const std::string& layer : kJoins) {
    const std::vector<double>& bias = state.tensors.at(join_of(layer) + "bias").data;
    for (std::size_t j = 0; j < 4; ++j)
      added_by_branches += 2 / (1 + std::exp(-bias[4 + j])) * state.tensors.at(layer + ".bias").data[0];
  }
  const ir::Function& forward = module.function("forward");
  const ir::Tensor x = sample(forward.type(forward.arguments.at(0).value)), y = output(module, state);
  for (std::size_t i = 0; i < x.data.size(); ++i)
    CHECK(y.data[i] == Approx(4 * x.data[i] + added_by_branches).margin(1e-12));
}

TEST_CASE("Joins that do not follow each other have lanes of their own, which begin and end there") {
  // Two chains: n^2 times the stream.
  const std::string spec = "hyper:kind=static,lanes=2,layers=0+2";
  const ir::Module module = rewritten(residual_net({.depth = 3}), {spec});
  ir::EvalState state = constant_branches(module, spec);
  for (auto& [name, tensor] : state.tensors) {
    if (name.find(".join_") == std::string::npos) std::ranges::fill(tensor.data, 0.0);
  }
  const ir::Function& forward = module.function("forward");
  const ir::Tensor x = sample(forward.type(forward.arguments.at(0).value)), y = output(module, state);
  for (std::size_t i = 0; i < x.data.size(); ++i) CHECK(y.data[i] == 4 * x.data[i]);
}

}  // namespace
}  // namespace rewire::test
