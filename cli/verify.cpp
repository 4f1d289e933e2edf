// rewire verify: checks that the user's own model or plugin computes what it should.
#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/engine.h"
#include "cli/json.h"
#include "cli/network.h"
#include "cli/streams.h"
#include "codegen/lowering_steps.h"
#include "ir/error.h"
#include "ir/passes/pass.h"
#include "programs/programs.h"
#include "runtime/exec/make_engine.h"
#include "runtime/network/weights.h"
#include "runtime/verify/engine_check.h"
#include "runtime/verify/gradient_check.h"

namespace rewire::cli {
namespace {

struct VerifyRequest {
  runtime::NetworkRequest network;
  std::int64_t batch = 2, directions = 1;
  std::vector<std::string> without;
  bool json = false;
  EngineRequest engine;
};

void declare(VerifyRequest& request, Options& options) {
  declare_network(request.network, options);
  options.integer("--batch", request.batch, 1, "images in the batch");
  options.integer("--directions", request.directions, 1,
                  "number of random directions for the weights of each role");
  declare_device(request.engine, options);
  options.list(
      "--without", request.without,
      "a pass or rewrite of the CPU's compiler to leave out, to find the one that is wrong; repeatable");
  options.flag("--json", request.json, "print an object");
  options.example("rewire verify examples/recipes/fashion_vit.toml",
                  "check gradients by differences, kernels by the evaluator");
  options.example("rewire verify vit_tiny_28 --device cuda", "check the kernels of a GPU");
  options.example("rewire verify vit_tiny_28 --without constant_fold",
                  "leave out a pass, to find the one that is wrong");
}

/// Makes the engine without the passes of --without. Without this option, makes it as every command does.
std::unique_ptr<runtime::Engine> compile(const VerifyRequest& request, const std::string& engine,
                                         const ir::Module& module) {
  if (request.without.empty()) return runtime::make_engine(engine, module);
  if (engine != runtime::engine_names().front())
    user_error("verify: --without works only with the engine {}", runtime::engine_names().front());
  std::vector<std::string> known;
  for (const ir::PassInfo& pass : ir::passes()) known.emplace_back(pass.name);
  known.insert(known.end(), codegen::kLoweringSteps.begin(), codegen::kLoweringSteps.end());
  runtime::JitEngineOptions options;
  for (const std::string& name : request.without) {
    if (std::ranges::find(known, name) == known.end())
      user_error("verify: --without {}: there is no such pass{}; there are {}", name,
                 did_you_mean(name, known), fmt::join(known, ", "));
    options.left_out.insert(name);
  }
  return runtime::make_jit_engine(module, options);
}

nlohmann::ordered_json hints_of(const ir::Module& module) {
  nlohmann::ordered_json hints = nlohmann::ordered_json::object();
  for (const ir::Parameter& parameter : module.parameters) {
    for (const ir::OptimizerHintField& field : ir::kOptimizerHintFields) {
      if (const std::optional<double>& value = parameter.hint.*field.value)
        hints[parameter.name][std::string(field.name)] = *value;
    }
  }
  return hints;
}

void print_object(const ir::Module& module, const runtime::GradientCheck& gradients,
                  const std::vector<std::string>& cuts, const runtime::EngineCheck& engine) {
  nlohmann::ordered_json differences = nlohmann::ordered_json::array();
  for (const runtime::GradientCheckRow& row : gradients.rows) {
    differences.push_back({{"role", row.role},
                           {"weights", row.weights},
                           {"gradient", row.gradient},
                           {"difference", row.difference},
                           {"error", row.error},
                           {"passed", row.passed}});
  }
  nlohmann::ordered_json errors = nlohmann::ordered_json::array();
  for (const runtime::EngineCheckRow& row : engine.rows) {
    errors.push_back({{"what", row.what},
                      {"elements", row.elements},
                      {"error", row.error},
                      {"tolerance", row.tolerance},
                      {"bound", row.bound},
                      {"worst", row.worst},
                      {"passed", row.passed()}});
  }
  print_json({{"loss", gradients.loss},
              {"passed", gradients.passed() && engine.passed()},
              {"gradients", std::move(differences)},
              {"cuts", cuts},
              {"hints", hints_of(module)},
              {"compiled", std::move(errors)}});
}

void print_tables(const ir::Module& module, const runtime::GradientCheck& gradients,
                  const std::vector<std::string>& cuts, const runtime::EngineCheck& engine) {
  print("gradients against finite differences, along random directions; loss {:.6f}\n", gradients.loss);
  print("{:<12} {:>10} {:>15} {:>15} {:>10}\n", "weights", "elements", "gradient", "difference", "error");
  for (const runtime::GradientCheckRow& row : gradients.rows) {
    print("{:<12} {:>10} {:>15.8e} {:>15.8e} {:>10.1e}{}\n", row.role, row.weights, row.gradient,
          row.difference, row.error, row.passed ? "" : "  WRONG");
  }
  for (const std::string& cut : cuts)
    print("note: stop_gradient at {}: the differences hold its value fixed\n", cut);
  for (const ir::Parameter& parameter : module.parameters) {
    if (const std::string hint = ir::to_string(parameter.hint); !hint.empty())
      print("hint: {}: {}\n", parameter.name, hint);
  }
  print("\ncompiled program against the evaluator: relative L2 error of outputs and gradients\n");
  print("{:<12} {:>10} {:>10} {:>10}  {:<12}  {}\n", "tensors", "elements", "error", "allowed", "bound",
        "the worst");
  for (const runtime::EngineCheckRow& row : engine.rows) {
    print("{:<12} {:>10} {:>10.1e} {:>10.1e}  {:<12}  {}{}\n", row.what, row.elements, row.error,
          row.tolerance, row.bound, row.worst, row.passed() ? "" : "  WRONG");
  }
}

void run(const VerifyRequest& request) {
  const std::string name = engine_of(request.engine);
  const runtime::Network network = runtime::resolve_network(request.network);
  const auto seed = static_cast<std::uint64_t>(network.recipe.seed);
  ir::Module module = runtime::training_module(network, request.batch);
  programs::add_grad_program(module, runtime::train_options(network.recipe, 1));
  const runtime::TensorMap weights = runtime::fresh_weights(module, network.plugins, seed);
  const runtime::GradientCheck gradients =
      runtime::check_gradients(module, weights, seed, request.directions);
  const std::unique_ptr<runtime::Engine> compiled = compile(request, name, module);
  const std::unique_ptr<runtime::Engine> evaluator = runtime::make_engine("evaluator", module);
  const runtime::EngineCheck engine = runtime::check_engine(*compiled, *evaluator, module, weights, seed);
  const std::vector<std::string> cuts = runtime::gradient_cuts(module);
  if (request.json) {
    print_object(module, gradients, cuts, engine);
  } else {
    print_tables(module, gradients, cuts, engine);
  }
  if (!gradients.passed()) {
    throw RuntimeFailure(fmt::format("a gradient is not the derivative of the loss (error above {:.0e})",
                                     runtime::kGradientTolerance));
  }
  if (!engine.passed()) {
    const auto wrong = std::ranges::find_if_not(engine.rows, &runtime::EngineCheckRow::passed);
    throw RuntimeFailure(
        fmt::format("the compiled program differs from the evaluator (error of {} {:.1e}, above {:.1e}); "
                    "`rewire repro` with --failure writes a folder that shows it",
                    wrong->worst, wrong->error, wrong->tolerance));
  }
}

}  // namespace

Command verify_command() {
  return make_command<VerifyRequest>("verify", "check gradients by differences, kernels by the evaluator",
                                     declare, run, "a smaller --batch");
}

}  // namespace rewire::cli
