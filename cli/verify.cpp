// rewire verify: does the user's own model or plugin compute what it should?
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/network.h"
#include "ir/error.h"
#include "runtime/train/gradient_check.h"
#include "runtime/train/program.h"
#include "runtime/train/weights.h"

namespace rewire::cli {
namespace {

struct Request {
  NetworkRequest network;
  std::int64_t batch = 2, directions = 1;
  bool json = false;
};

void declare(Request& request, Options& options) {
  declare_network(request.network, options);
  options.integer("--batch", request.batch, 1, "images in the batch");
  options.integer("--directions", request.directions, 1, "random directions for the weights of each role");
  options.flag("--json", request.json, "print an object");
}

void print_object(const runtime::GradientCheck& check) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const runtime::GradientCheckRow& row : check.rows) {
    rows.push_back({{"role", row.role},
                    {"weights", row.weights},
                    {"gradient", row.gradient},
                    {"difference", row.difference},
                    {"error", row.error},
                    {"passed", row.passed}});
  }
  print_json({{"loss", check.loss}, {"passed", check.passed()}, {"gradients", std::move(rows)}});
}

void print_table(const runtime::GradientCheck& check) {
  fmt::print("gradients against differences, along random directions; loss {:.6f}\n", check.loss);
  fmt::print("{:<12} {:>10} {:>15} {:>15} {:>10}\n", "weights", "elements", "gradient", "difference",
             "error");
  for (const runtime::GradientCheckRow& row : check.rows) {
    fmt::print("{:<12} {:>10} {:>15.8e} {:>15.8e} {:>10.1e}{}\n", row.role, row.weights, row.gradient,
               row.difference, row.error, row.passed ? "" : "  WRONG");
  }
}

void run(const Request& request) {
  const Network network = resolve(request.network);
  const auto seed = static_cast<std::uint64_t>(network.recipe.seed);
  ir::Module module = rewritten_module(network, request.batch);
  runtime::add_grad_program(module, runtime::train_options(network.recipe, 1));
  const runtime::TensorMap weights = runtime::fresh_weights(module, network.plugins, seed);
  const runtime::GradientCheck check = runtime::check_gradients(module, weights, seed, request.directions);
  request.json ? print_object(check) : print_table(check);
  if (!check.passed()) {
    throw RuntimeFailure(fmt::format("a gradient is not the derivative of the loss (error above {:.0e})",
                                     runtime::kGradientTolerance));
  }
}

}  // namespace

Command verify_command() {
  return make_command<Request>("verify", "a model's gradients against differences of its loss", declare, run);
}

}  // namespace rewire::cli
