// rewire explore: one page about a network and its training step.
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/explored.h"
#include "cli/json.h"
#include "cli/log.h"
#include "cli/network.h"
#include "cli/program.h"
#include "cli/streams.h"
#include "codegen/cuda/emit.h"
#include "ir/error.h"
#include "runtime/io/files.h"
#include "runtime/page/page.h"

namespace rewire::cli {
namespace {

struct ExploreRequest {
  runtime::NetworkRequest network;
  ExploreOptions options;
  std::string output;
  bool json = false;
};

void declare(ExploreRequest& request, Options& options) {
  declare_network(request.network, options);
  options.text("--output", request.output, "the HTML file to write; - is stdout")
      .takes(Values::file, {".html"});
  options.choice("--arch", request.options.arch, codegen::cuda::architecture_names(),
                 "the GPU whose CUDA C++ stands beside the CPU's code; none is needed");
  options.flag("--ptx", request.options.ptx, "also the PTX of that CUDA C++, by NVRTC");
  options.flag(
      "--profile", request.options.profile,
      "also how long each launch takes on this CPU, and what it reaches of a copy's bandwidth and of "
      "the multiply-adds, timed now");
  options.flag("--json", request.json, "print the page's data instead of writing the page");
  options.example("rewire explore vit_tiny_28 --output page.html",
                  "formulas, IR, passes and kernels on a page");
  options.example("rewire explore vit_tiny_28 --profile --output page.html", "with the time of each launch");
}

void run(const ExploreRequest& request) {
  if (request.output.empty() && !request.json)
    user_error("explore: --output FILE is needed, the page to write; or --json, which prints its data");
  if (!request.output.empty() && request.output != "-")
    check_output(request.output, files_of(request.network));
  MovingLine progress(!logs_info());
  const nlohmann::ordered_json data = explored(request.network, request.options, progress);
  progress.clear();
  if (request.json) return print_json(data, 1);
  const std::string page = runtime::make_page(runtime::explorer_files(), request.network.model, data);
  if (request.output == "-") return write_stdout(page);
  runtime::write_file_atomically(request.output, page);
  progress.line("wrote " + request.output);
}

}  // namespace

Command explore_command() {
  return make_command<ExploreRequest>(
      "explore", "a network as one page for a browser: passes, kernels, memory", declare, run);
}

}  // namespace rewire::cli
