// Formulas beside the strategies in C++ that compute the same: equal weights, results and kernels. And what a
// formula means on its own: names, lists, draws, options of weights, errors.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "codegen/program.h"
#include "codegen/tile/tile.h"
#include "ir/error.h"
#include "ir/passes/pass.h"
#include "models/model.h"
#include "programs/programs.h"
#include "tests/plugins/strategy.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/residual_net.h"

namespace rewire::test {
namespace {

struct Pair {
  std::string formula;  // the values of the plugin formula
  std::string strategy;
  double tolerance = 0;  // relative; 0: the same bits
  std::vector<std::string> networks = {"vit", "mae", "resnetv2"};
};

const std::vector<Pair>& pairs() {
  static const std::vector<Pair> all = {
      {R"~(join="(L == 1 ? 1 : 1 - (1 - 0.6) * l / (L - 1)) * x + f")~", "decay:zero_init=off"},
      {R"~(join="(L == 1 ? 1 : 1 - (1 - 0.6) * l / (L - 1)) * x + f",init="last = 0")~", "decay"},
      {R"~(join="(1 - (1 - 0.6) * l / L) * x + f")~", "decay:schedule=paper_literal,zero_init=off"},
      {R"~(join="(B == 1 ? 1 : 1 - (1 - 0.6) * b / (B - 1)) * x + f")~",
       "decay:schedule=per_block,zero_init=off"},
      {R"~(weights="alpha[1] = 1, decay",join="alpha * x + f")~", "decay:learnable=true"},
      {R"~(shortcut="sqrt(0.5) * x",branch="sqrt(0.5) * f")~", "decay:variant=both"},
      {R"~(join="x + f - dot(x, f) / (dot(x, x) + 1e-6) * x")~", "orthogonal"},
      {R"~(join="x + f - dot(x, f, sample) / (dot(x, x, sample) + 1e-6) * x")~", "orthogonal:mode=global"},
      {R"~(weights="gamma[channels] = 0.1",change_branch="gamma * it")~", "layerscale"},
      {R"~(weights="alpha = 0",change_branch="alpha * it")~", "layerscale:kind=skipinit"},
      {R"~(weights="alpha = 0, per block",change_branch="alpha * it")~", "layerscale:kind=rezero"},
      {R"~(at=block,weights="alpha[out] = k == K ? 1 : 0",change_sum="weighted(out, alpha)")~",
       "denseformer"},
      {R"~(input="x",change_sum="branch_norm(it)")~", "postnorm", 0, {"vit", "mae"}},
      {R"~(weights="norm_weight[d] = 1; norm_bias[d] = 0",shortcut="L * x",change_sum="layer_norm(it, norm_weight, norm_bias)")~",
       "postnorm:kind=keel"},
      {R"~(weights="query[d] = 0; output_query[d] = 0",
         let="scale = rsqrt(mean(branches * branches) + 1e-6)",
         norm_input="weighted(branches, softmax(dot(branches, query) * scale))",sum="f",
         exit="weighted(branches, softmax(dot(branches, output_query) * scale))")~",
       "attnres",
       1e-6,
       {"vit", "mae"}},
  };
  return all;
}

ir::Module network(const std::string& name, std::int64_t batch) {
  ir::Selection options{name == "vit" ? "vit_tiny_28" : name == "mae" ? "mae_vit_tiny_28" : "resnetv2_18"};
  options.set("image", std::int64_t{8});
  if (name == "resnetv2") {
    options.set("width", std::int64_t{4}).set("depths", ir::Doubles{1, 2});
  } else {
    options.set("dim", std::int64_t{12}).set("depth", std::int64_t{3});
  }
  if (name == "mae") options.set("decoder_dim", std::int64_t{12}).set("decoder_depth", std::int64_t{2});
  return models::build(options, batch);
}

std::string whole(const std::string& values) {
  std::string spec = "formula:";
  for (const char c : values)
    if (c != '\n' && (c != ' ' || !spec.ends_with(','))) spec += c;
  return spec;
}

/// What the function returns in evaluation, from the weights that training starts from; those of the strategy are moved a
/// little, so that a weight of 0 hides nothing.
std::vector<ir::Tensor> results(const ir::Module& module, const std::string& spec) {
  ir::EvalState state = to_eval_state(started(module, {spec}));
  double phase = 0;
  for (const ir::Parameter& parameter : module.parameters) {
    if (parameter.role != "join") continue;
    ir::Tensor& tensor = state.tensors.at(parameter.name);
    const ir::Tensor moved = sample(parameter.type, ++phase);
    for (std::size_t i = 0; i < tensor.data.size(); ++i) tensor.data[i] += 0.2 * moved.data[i];
  }
  const ir::Function& forward = module.function("forward");
  std::vector<ir::Tensor> arguments;
  for (const ir::Argument& argument : forward.arguments)
    arguments.push_back(sample(forward.type(argument.value), 0.3));
  return ir::evaluate(module, forward, arguments, state);
}

TEST_CASE("A formula has the weights, initial values and results of the strategy that it spells out") {
  for (const Pair& pair : pairs()) {
    for (const std::string& name : pair.networks) {
      CAPTURE(pair.formula, pair.strategy, name);
      const std::string spec = whole(pair.formula);
      const ir::Module formula = rewritten(network(name, 2), {spec}),
                       strategy = rewritten(network(name, 2), {pair.strategy});
      std::map<std::string, ir::Parameter> wanted;
      for (const ir::Parameter& parameter : strategy.parameters) wanted.emplace(parameter.name, parameter);
      CHECK(formula.parameters.size() == strategy.parameters.size());
      for (const ir::Parameter& parameter : formula.parameters) {
        CAPTURE(parameter.name);
        REQUIRE(wanted.contains(parameter.name));
        const ir::Parameter& other = wanted.at(parameter.name);
        CHECK(parameter.type == other.type);
        CHECK(parameter.trainable == other.trainable);
        CHECK(parameter.decay == other.decay);
      }
      const runtime::TensorMap ours = started(formula, {spec}), theirs = started(strategy, {pair.strategy});
      for (const auto& [weight, tensor] : theirs) {
        CAPTURE(weight);
        CHECK(runtime::to_double(ours.at(weight)).data == runtime::to_double(tensor).data);
      }
      const std::vector<ir::Tensor> got = results(formula, spec), want = results(strategy, pair.strategy);
      REQUIRE(got.size() == want.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        double largest = 0, farthest = 0;
        for (std::size_t j = 0; j < want[i].data.size(); ++j) {
          largest = std::max(largest, std::fabs(want[i].data[j]));
          farthest = std::max(farthest, std::fabs(want[i].data[j] - got[i].data[j]));
        }
        CHECK(farthest <= pair.tolerance * largest);
      }
    }
  }
}

/// Launches, kernels, kernels of different code and products of a training step.
std::vector<std::size_t> counts_of(const std::string& name, const std::string& spec) {
  ir::Module module = rewritten(network(name, 8), {spec});
  programs::TrainOptions options;
  if (name == "mae") options.objective = ir::Selection{"mae"};
  programs::add_step_program(module, options);
  std::erase_if(module.functions, [](const ir::Function& function) { return function.name != "step"; });
  ir::PassContext context;
  ir::run_pipeline(module, context);
  const codegen::Program program = codegen::lower(module, module.function("step"));
  std::size_t kernels = 0, products = 0;
  std::set<std::string> codes;
  for (const codegen::Launch& launch : program.launches) {
    products += std::holds_alternative<codegen::GemmLaunch>(launch) ? 1 : 0;
    if (const auto* kernel = std::get_if<codegen::KernelLaunch>(&launch)) {
      kernels += kernel->members();
      codes.insert(codegen::tile::structure(kernel->kernel));
    }
  }
  return {program.launches.size(), kernels, codes.size(), products};
}

TEST_CASE("A training step with a formula has no more launches and kernels than with the strategy in C++") {
  for (const Pair& pair : pairs()) {
    for (const std::string& name : pair.networks) {
      CAPTURE(pair.formula, pair.strategy, name);
      const std::vector<std::size_t> ours = counts_of(name, whole(pair.formula)),
                                     theirs = counts_of(name, pair.strategy);
      CAPTURE(ours, theirs);
      for (std::size_t i = 0; i < ours.size(); ++i) CHECK(ours[i] <= theirs[i]);
    }
  }
}

}  // namespace
}  // namespace rewire::test
