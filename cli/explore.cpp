// rewire explore: writes a page about a network and its training step.
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/log.h"
#include "cli/network.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "cli/streams.h"
#include "codegen/cuda/emit.h"
#include "formula/mathml.h"
#include "ir/error.h"
#include "runtime/io/files.h"
#include "runtime/network/explored.h"
#include "runtime/page/page.h"
#include "runtime/plugin/plugin.h"

namespace rewire::cli {
namespace {

struct ExploreRequest {
  runtime::NetworkRequest network;
  runtime::ExploreOptions options;
  std::string output;
  bool json = false;
};

void declare(ExploreRequest& request, Options& options) {
  declare_network(request.network, options);
  options.text("--output", request.output, "the HTML file to write; - is stdout")
      .takes(Values::file, {".html"});
  options.choice("--arch", request.options.arch, codegen::cuda::architecture_names(),
                 "also show the CUDA C++ for this GPU beside the CPU's code; no GPU is needed");
  options.flag("--ptx", request.options.ptx, "also show the PTX of that CUDA C++, by NVRTC");
  options.flag(
      "--profile", request.options.profile,
      "also time each launch on this CPU, and show its share of the bandwidth of a copy and of the rate of "
      "multiply-adds");
  options.flag("--json", request.json, "print the page's data instead of writing the page");
  options.example("rewire explore vit_tiny_28 --output page.html",
                  "write formulas, IR, passes and kernels to a page");
  options.example("rewire explore vit_tiny_28 --profile --output page.html",
                  "also show the time of each launch");
}

/// Returns the formulas that the plugin `formula` has as parameters; none for other plugins.
std::vector<runtime::Formula> notation_of(const runtime::Plugin& plugin) {
  std::vector<runtime::Formula> notation;
  if (runtime::plugin_info(plugin).name != "formula") return notation;
  try {
    for (const formula::Equation& equation : formula::equations(runtime::plugin_values(plugin)))
      notation.push_back({equation.key, equation.text, equation.mathml});
  } catch (const formula::Error&) {
    return {};  // somebody else's plugin of this name, with another language
  }
  return notation;
}

void run(const ExploreRequest& request) {
  if (request.output.empty() && !request.json)
    user_error("explore: give --output FILE, the page to write, or --json, which prints its data");
  if (!request.output.empty() && request.output != "-")
    check_output(request.output, files_of(request.network));
  MovingLine progress(!logs_info());
  runtime::ExploreOptions options = request.options;
  options.notation = notation_of;
  const nlohmann::ordered_json data = runtime::explored(
      request.network, options, [&](const std::string& stage) { progress.moving(stage, true); });
  progress.clear();
  if (request.json) return print_json(data, 1);
  const std::string page = runtime::make_page(runtime::explorer_files(), request.network.model, data);
  if (request.output == "-") return write_stdout(page);
  runtime::write_file_atomically(request.output, page);
  progress.line("wrote " + request.output);
}

}  // namespace

Command explore_command() {
  return make_command<ExploreRequest>("explore", "write a page about a network: passes, kernels, memory",
                                      declare, run);
}

}  // namespace rewire::cli
