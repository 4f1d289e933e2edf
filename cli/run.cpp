// rewire run: forward, files in, files out; with --tap also what stands behind joins.
#include "cli/commands.h"
#include "cli/network.h"
#include "cli/program.h"
#include "cli/taps.h"
#include "ir/error.h"
#include "runtime/io/npy.h"
#include "runtime/train/given.h"
#include "runtime/train/weights.h"

namespace rewire::cli {
namespace {

struct Request {
  runtime::NetworkRequest network;
  ProgramRequest program;
  std::string output;
  std::vector<std::string> taps;
};

void declare(Request& request, Options& options) {
  declare_network(request.network, options);
  declare_program(request.program, options, "images, f32 [batch, channels, height, width]");
  options.text("--output", request.output, "the .npy file that the logits go to", Options::Need::required)
      .takes(Values::file, {".npy"});
  options.list("--tap", request.taps,
               "a join's name or a pattern, blocks.3.attn or 'blocks.*.mlp': what it gives goes to "
               "OUTPUT.NAME.npy, or with NAME=FILE to that; repeatable");
  options.example("rewire run vit_tiny_28 --weights w.safetensors --input x.npy --output y.npy",
                  "the logits of a batch");
  options.example(
      "rewire run vit_tiny_28 --weights w.safetensors --input x.npy --output y.npy --tap 'blocks.*.attn'",
      "and what each of these joins gives");
}

void run(const Request& request) {
  const std::vector<std::string> read = files_of(request.network, request.program);
  check_output(request.output, read);
  const runtime::Network network = runtime::resolve_network(request.network);
  const ir::Module original = runtime::original_module(network, 1);
  std::vector<std::string> names;
  for (const ir::Argument& argument : original.function("forward").arguments) names.push_back(argument.name);
  const runtime::GivenInputs given = read_inputs(request.program, names);
  ir::Module module = runtime::rewritten_module(
      network, runtime::batch_extent(given.at(names.front()), runtime::image_rank(network), false));
  ir::Function& forward = *module.find_function("forward");
  const std::vector<Tap> taps = find_taps(forward, request.taps, request.output);
  for (const Tap& tap : taps) check_output(tap.file, read, "--tap");
  add_taps(forward, taps);
  runtime::set_precision(module, runtime::network_source(network));
  for (const auto& [name, tensor] : given) runtime::check_batch(module, forward, name, tensor);
  const std::unique_ptr<runtime::Engine> engine =
      start_engine(network, module, request.program, runtime::read_weights(module, request.program.weights));

  runtime::TensorMap inputs;
  for (const auto& [name, tensor] : given) inputs.emplace(name, tensor.tensor.clone());
  const runtime::TensorMap results = engine->run("forward", inputs);
  runtime::write_npy(request.output, results.at(forward.results.at(0).name));
  for (const Tap& tap : taps) runtime::write_npy(tap.file, results.at(tap.join));
}

}  // namespace

Command run_command() {
  return make_command<Request>("run", "forward: inputs in, the network's first result out", declare, run,
                               "fewer images in --input");
}

}  // namespace rewire::cli
