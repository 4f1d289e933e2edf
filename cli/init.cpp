// rewire init: writes a model's initial weights, as its plugins leave them.
#include "cli/commands.h"
#include "cli/network.h"
#include "cli/program.h"
#include "runtime/io/safetensors.h"
#include "runtime/network/weights.h"

namespace rewire::cli {
namespace {

struct InitRequest {
  runtime::NetworkRequest network;
  std::string output;
};

void declare(InitRequest& request, Options& options) {
  declare_network(request.network, options);
  options.text("--output", request.output, "the safetensors file to write", Options::Need::required)
      .takes(Values::file, {".safetensors"});
  options.example("rewire init vit_tiny_28 --set seed=1 --output w.safetensors",
                  "write the weights that a run with this seed begins with");
}

void run(const InitRequest& request) {
  check_output(request.output, files_of(request.network));
  const runtime::Network network = runtime::resolve_network(request.network);
  const ir::Module module = runtime::rewritten_module(network, 1);
  const auto seed = static_cast<std::uint64_t>(network.recipe.seed);
  runtime::write_safetensors(request.output, runtime::fresh_weights(module, network.plugins, seed),
                             runtime::origin_metadata(runtime::origin_of(network)));
}

}  // namespace

Command init_command() {
  return make_command<InitRequest>("init", "write a model's initial weights (--set seed=N chooses them)",
                                   declare, run);
}

}  // namespace rewire::cli
