// rewire explore: one page about a network and its training step.
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/lowered.h"
#include "cli/network.h"
#include "cli/program.h"
#include "cli/streams.h"
#include "codegen/cuda/emit.h"
#include "ir/error.h"
#include "programs/programs.h"
#include "runtime/device/process.h"
#include "runtime/exec/benchmark.h"
#include "runtime/explore/explore.h"
#include "runtime/io/files.h"
#include "runtime/page/page.h"
#include "runtime/train/weights.h"

namespace rewire::cli {
namespace {

constexpr int kProfileRuns = 5;

struct Request {
  runtime::NetworkRequest network;
  std::string output, arch = "sm_90";
  bool profile = false, ptx = false, json = false;
};

void declare(Request& request, Options& options) {
  declare_network(request.network, options);
  options.text("--output", request.output, "the HTML file to write; - is stdout")
      .takes(Values::file, {".html"});
  options.choice("--arch", request.arch, codegen::cuda::architecture_names(),
                 "the GPU whose CUDA C++ stands beside the CPU's code; none is needed");
  options.flag("--ptx", request.ptx, "also the PTX of that CUDA C++, by NVRTC");
  options.flag(
      "--profile", request.profile,
      "also how long each launch takes on this CPU, and what it reaches of a copy's bandwidth and of "
      "the multiply-adds, timed now");
  options.flag("--json", request.json, "print the page's data instead of writing the page");
  options.example("rewire explore vit_tiny_28 --output page.html",
                  "formulas, IR, passes and kernels on a page");
  options.example("rewire explore vit_tiny_28 --profile --output page.html", "with the time of each launch");
}

void profile(const runtime::Network& network, const ir::Module& module, runtime::ExplorerSubject& subject) {
  const std::string engine = runtime::engine_names().front();
  const int threads = static_cast<int>(network.recipe.train.threads);
  const auto seed = static_cast<std::uint64_t>(network.recipe.seed);
  const auto jit = runtime::make_compiling_engine(engine, module, threads);
  runtime::start_state(*jit, module, runtime::fresh_weights(module, network.plugins, seed), seed);
  const ir::Function& step = module.functions.front();
  const auto categories = [&](std::string_view input) { return programs::categories(module, input); };
  subject.times = jit->profile(step.name, runtime::random_inputs(step, categories), kProfileRuns);
  subject.ceilings = runtime::measure_ceilings(engine, ir::DType::f32, false, threads);
}

void run(const Request& request) {
  if (request.output.empty() && !request.json)
    user_error("explore: --output FILE is needed, the page to write; or --json, which prints its data");
  if (!request.output.empty() && request.output != "-") check_output(request.output, {request.network.model});
  const runtime::Network network = runtime::resolve_network(request.network);
  const std::int64_t batch = network.recipe.train.batch;
  runtime::ExplorerSubject subject;
  subject.model = request.network.model;
  subject.program = step_program(network);
  subject.batch = batch;
  subject.plugins = network.plugins;
  subject.rewritten = runtime::rewritten_module(network, batch);  // which judges the plugins
  subject.original = runtime::original_module(network, batch);
  const ir::Module module = step_module(network, runtime::training_module(network, batch));
  const runtime::ChoiceOptions choices{{}, false};
  ir::PassContext context;
  runtime::PassLog passes(context, module);
  subject.passes = &passes;
  subject.step = lower_step(module, {}, choices, context);
  subject.gpu_name = request.arch;
  subject.gpu_arch = std::stoi(request.arch.substr(3));
  subject.ptx = request.ptx;
  ir::PassContext gpu_context;
  const codegen::Target target = gpu_target(codegen::cuda::device_target(subject.gpu_arch), choices);
  subject.gpu = lower_step(module, target, choices, gpu_context).program;
  if (request.profile) profile(network, module, subject);
  const nlohmann::ordered_json data = runtime::explorer_json(subject, runtime::usable_cores());
  if (request.json) return print_json(data, 1);
  const std::string page = runtime::make_page(runtime::explorer_files(), subject.model, data);
  if (request.output == "-") return write_stdout(page);
  runtime::write_file_atomically(request.output, page);
}

}  // namespace

Command explore_command() {
  return make_command<Request>("explore", "a network as one page for a browser: passes, kernels, memory",
                               declare, run);
}

}  // namespace rewire::cli
