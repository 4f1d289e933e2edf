// rewire dump: the network as text, at a stage of its way.
#include <fmt/format.h>

#include <cstdio>

#include "cli/commands.h"
#include "cli/network.h"
#include "ir/passes/pass.h"
#include "ir/text.h"
#include "runtime/train/program.h"

namespace rewire::cli {
namespace {

struct Request {
  NetworkRequest network;
  std::string stage = "ir";
  bool print_after_all = false, time_passes = false;
};

void declare(Request& request, Options& options) {
  declare_network(request.network, options);
  options.choice("--stage", request.stage, {"ir", "rewritten", "step"},
                 "ir: the model; rewritten: after the plugins; step: the training step after all passes");
  options.flag("--print-after-all", request.print_after_all,
               "with --stage step: each pass that changed the IR, on stderr");
  options.flag("--time-passes", request.time_passes, "with --stage step: the time of each pass, on stderr");
}

/// The module with this program alone.
ir::Module alone(ir::Module module, std::string_view program) {
  std::erase_if(module.functions, [&](const ir::Function& function) { return function.name != program; });
  module.drop_unused_parameters();
  return module;
}

ir::Module step_module(const Request& request, const Network& network, ir::Module module) {
  runtime::add_step_program(module, runtime::train_options(network.recipe, 1));
  module = alone(std::move(module), network.recipe.train.accumulate == 1 ? "step" : "accumulate");
  ir::PassContext context;
  context.training = true;
  if (request.print_after_all) {
    context.on_change = [](std::string_view pass, const std::string& text) {
      fmt::print(stderr, "// after {}\n{}", pass, text);
    };
  }
  ir::run_pipeline(module, context);
  if (request.time_passes) {
    for (const ir::PassTime& time : context.times)
      fmt::print(stderr, "{:<24} {:8.2f} ms\n", time.pass, time.seconds.count() * 1e3);
  }
  return module;
}

void run(const Request& request) {
  const Network network = resolve(request.network);
  const std::int64_t batch = network.recipe.train.batch;
  ir::Module module =
      request.stage == "ir" ? original_module(network, batch) : rewritten_module(network, batch);
  if (request.stage == "step") module = step_module(request, network, std::move(module));
  fmt::print("{}", ir::print(module));
}

}  // namespace

Command dump_command() {
  return make_command<Request>("dump", "the network as text, at a stage of its way to a training step",
                               declare, run);
}

}  // namespace rewire::cli
