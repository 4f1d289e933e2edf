// rewire grad: the loss of one batch, and its gradient by every weight.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/network.h"
#include "cli/program.h"
#include "cli/streams.h"
#include "runtime/io/safetensors.h"
#include "runtime/train/given.h"
#include "runtime/train/program.h"

namespace rewire::cli {
namespace {

struct Request {
  NetworkRequest network;
  ProgramRequest program;
  std::string labels, output;
  bool json = false;
};

void declare(Request& request, Options& options) {
  declare_network(request.network, options);
  declare_program(request.program, options, "images, f32 [batch, channels, height, width]");
  options.text("--labels", request.labels, ".npy: classes, i64 [batch]", Options::Need::required);
  options.text("--output", request.output, "the safetensors file that the gradients go to",
               Options::Need::required);
  options.flag("--json", request.json, "print {\"loss\": ...}");
}

void run(const Request& request) {
  std::vector<std::string> read = files_of(request.network, request.program);
  read.push_back(request.labels);
  check_output(request.output, read);
  const Network network = resolve(request.network);
  const runtime::GivenTensor image = runtime::read_given(request.program.input);
  const runtime::GivenTensor label = runtime::read_given(request.labels);
  ir::Module module = computed_module(network, runtime::batch_extent(image, image_rank(network), false));
  runtime::add_grad_program(module, runtime::train_options(network.recipe, 1));
  const ir::Function& grad = module.function("grad");
  runtime::check_batch(module, grad, "image", image);
  runtime::check_batch(module, grad, "label", label);
  const std::unique_ptr<runtime::Engine> engine = start_engine(network, module, request.program);

  runtime::TensorMap inputs;
  inputs.emplace("image", image.tensor.clone());
  inputs.emplace("label", label.tensor.clone());
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
  return make_command<Request>("grad", "the loss of a batch and its gradient by every weight", declare, run,
                               "fewer images in --input");
}

}  // namespace rewire::cli
