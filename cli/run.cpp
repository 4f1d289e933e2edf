// rewire run: computes the network forward, from files to files; --tap also writes the results of joins.
#include <memory>

#include "cli/commands.h"
#include "cli/network.h"
#include "cli/program.h"
#include "cli/taps.h"
#include "ir/error.h"
#include "runtime/io/npy.h"
#include "runtime/measure/given.h"
#include "runtime/network/run_programs.h"
#include "runtime/run/trained_network.h"

namespace rewire::cli {
namespace {

struct RunRequest {
  runtime::NetworkRequest network;
  ProgramRequest program;
  std::string checkpoint, output;
  bool averages = false;
  std::vector<std::string> taps;
};

void declare(RunRequest& request, Options& options) {
  options
      .text("MODEL", request.network.model,
            "a run folder; with --weights also a recipe (.toml), a module (.rir) or a zoo model",
            Options::Need::required)
      .takes(Values::trained);
  options
      .text("--checkpoint", request.checkpoint,
            "best, last or the name of a checkpoint of the run; the last by default")
      .takes(Values::checkpoint);
  options.flag("--ema", request.averages, "use the moving averages of the run's weights (train.ema)");
  declare_changes(request.network, options);
  declare_program(request.program, options, "images, f32 [batch, channels, height, width]",
                  Options::Need::optional);
  options.text("--output", request.output, "the .npy file to write the logits to", Options::Need::required)
      .takes(Values::file, {".npy"});
  options.list("--tap", request.taps,
               "a join's name or a pattern, blocks.3.attn or 'blocks.*.mlp': write its result to "
               "OUTPUT.NAME.npy, or with NAME=FILE to FILE; repeatable");
  options.example("rewire run runs/fashion_vit-none-s0 --input x.npy --output y.npy",
                  "compute the logits of a batch with a run's weights");
  options.example("rewire run vit_tiny_28 --weights w.safetensors --input x.npy --output y.npy",
                  "compute them with weights from another source");
  options.example(
      "rewire run vit_tiny_28 --weights w.safetensors --input x.npy --output y.npy --tap 'blocks.*.attn'",
      "also write the result of each of these joins");
}

void run(const RunRequest& request) {
  const std::vector<std::string> read = files_of(request.network, request.program);
  check_output(request.output, read);
  runtime::TrainedNetwork trained =
      runtime::find_trained({request.network, request.program.weights, request.checkpoint, request.averages});
  const runtime::Network& network = trained.network;
  const ir::Module original = runtime::original_module(network, 1);
  const ir::Function& unbound = original.function("forward");
  std::vector<std::string> names;
  for (const ir::Argument& argument : unbound.arguments) names.push_back(argument.name);
  const runtime::GivenInputs given = read_inputs(request.program, names);
  ir::Module module = runtime::rewritten_forward(
      runtime::network_source(network),
      runtime::batch_extent(given.at(names.front()), unbound.type(unbound.arguments.front().value).rank(),
                            false),
      trained.epoch);
  ir::Function& forward = *module.find_function("forward");
  const std::vector<Tap> taps = find_taps(forward, request.taps, request.output);
  for (const Tap& tap : taps) check_output(tap.file, read, "--tap");
  add_taps(forward, taps);
  runtime::set_precision(module, runtime::network_source(network));
  for (const auto& [name, tensor] : given) runtime::check_batch(module, forward, name, tensor);
  const std::unique_ptr<runtime::Engine> engine =
      start_engine(network, module, request.program, runtime::read_trained_weights(trained, module));

  runtime::TensorMap inputs;
  for (const auto& [name, tensor] : given) inputs.emplace(name, tensor.tensor.clone());
  const runtime::TensorMap results = engine->run("forward", inputs);
  runtime::write_npy(request.output, results.at(forward.results.at(0).name));
  for (const Tap& tap : taps) runtime::write_npy(tap.file, results.at(tap.join));
}

}  // namespace

Command run_command() {
  return make_command<RunRequest>("run", "compute the network's first result from its inputs", declare, run,
                                  "fewer images in --input");
}

}  // namespace rewire::cli
