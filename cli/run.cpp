// rewire run: forward, files in, files out.
#include "cli/commands.h"
#include "cli/network.h"
#include "cli/program.h"
#include "ir/error.h"
#include "runtime/io/npy.h"
#include "runtime/train/given.h"

namespace rewire::cli {
namespace {

struct Request {
  NetworkRequest network;
  ProgramRequest program;
  std::string output;
};

void declare(Request& request, Options& options) {
  declare_network(request.network, options);
  declare_program(request.program, options, "images, f32 [batch, channels, height, width]");
  options.text("--output", request.output, "the .npy file that the logits go to", Options::Need::required);
}

void run(const Request& request) {
  check_output(request.output, files_of(request.network, request.program));
  const Network network = resolve(request.network);
  const runtime::GivenTensor image = runtime::read_given(request.program.input);
  const ir::Module module =
      computed_module(network, runtime::batch_extent(image, image_rank(network), false));
  const ir::Function& forward = module.function("forward");
  runtime::check_batch(module, forward, forward.arguments.at(0).name, image);
  const std::unique_ptr<runtime::Engine> engine = start_engine(network, module, request.program);

  runtime::TensorMap inputs;
  inputs.emplace(forward.arguments.at(0).name, image.tensor.clone());
  const runtime::TensorMap results = engine->run("forward", inputs);
  runtime::write_npy(request.output, results.at(forward.results.at(0).name));
}

}  // namespace

Command run_command() {
  return make_command<Request>("run", "forward: images in, logits out", declare, run,
                               "fewer images in --input");
}

}  // namespace rewire::cli
