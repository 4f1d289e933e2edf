// rewire grad: computes the loss of one batch and its gradient for every weight.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/network.h"
#include "cli/program.h"
#include "cli/streams.h"
#include "programs/programs.h"
#include "runtime/io/safetensors.h"
#include "runtime/measure/given.h"
#include "runtime/network/weights.h"

namespace rewire::cli {
namespace {

struct GradRequest {
  runtime::NetworkRequest network;
  ProgramRequest program;
  std::string output;
  bool json = false;
};

void declare(GradRequest& request, Options& options) {
  declare_network(request.network, options);
  declare_program(request.program, options, "images, f32 [batch, channels, height, width]");
  options
      .text("--labels", request.program.labels, ".npy: classes, i64 [batch]; the same as --input label=FILE")
      .takes(Values::file, {".npy"});
  options
      .text("--output", request.output, "the safetensors file to write the gradients to",
            Options::Need::required)
      .takes(Values::file, {".safetensors"});
  options.flag("--json", request.json, "print {\"loss\": ...}");
  options.example(
      "rewire grad vit_tiny_28 --weights w.safetensors --input x.npy --labels y.npy --output g.safetensors",
      "write the gradient of each weight and print the loss");
}

void run(const GradRequest& request) {
  check_output(request.output, files_of(request.network, request.program));
  const runtime::Network network = runtime::resolve_network(request.network);
  const programs::Inputs wanted = training_inputs(network);
  const runtime::GivenInputs given = read_inputs(request.program, names_of(wanted));
  ir::Module module = runtime::training_module(network, batch_of(given, wanted, false));
  programs::add_grad_program(module, runtime::train_options(network.recipe, 1));
  const ir::Function& grad = module.function("grad");
  for (const auto& [name, tensor] : given) runtime::check_batch(module, grad, name, tensor);
  const std::unique_ptr<runtime::Engine> engine =
      start_engine(network, module, request.program, read_weights(network, module, request.program.weights));

  runtime::TensorMap inputs;
  for (const auto& [name, tensor] : given) inputs.emplace(name, tensor.tensor.clone());
  runtime::TensorMap results = engine->run("grad", inputs);
  const double loss = runtime::to_double(results.at("loss")).scalar();
  results.erase("loss");
  runtime::write_safetensors(request.output, results);
  if (request.json) {
    print_json_line(nlohmann::ordered_json{{"loss", loss}});
  } else {
    print("loss {}\n", loss);
  }
}

}  // namespace

Command grad_command() {
  return make_command<GradRequest>("grad", "compute the loss of a batch and its gradient for every weight",
                                   declare, run, "fewer images in --input");
}

}  // namespace rewire::cli
