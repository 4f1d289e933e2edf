// rewire dump: prints the network as text, at a stage of compilation.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "cli/choices.h"
#include "cli/colour.h"
#include "cli/commands.h"
#include "cli/engine.h"
#include "cli/json.h"
#include "cli/network.h"
#include "cli/pager.h"
#include "cli/streams.h"
#include "cli/summary.h"
#include "cli/table.h"
#include "cli/times.h"
#include "codegen/compile.h"
#include "codegen/cuda/emit.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen/llvm/jit.h"
#include "ir/error.h"
#include "ir/passes/pass.h"
#include "ir/text.h"
#include "programs/objective.h"
#include "programs/programs.h"
#include "runtime/device/cuda/device.h"
#include "runtime/diff/module_text.h"
#include "runtime/exec/cuda/engine.h"
#include "runtime/exec/kernel_override.h"
#include "runtime/exec/make_engine.h"
#include "runtime/exec/memory_plan.h"
#include "runtime/exec/tune/tune_keys.h"
#include "runtime/explore/joins.h"
#include "runtime/explore/stages.h"
#include "runtime/network/lowered.h"

namespace rewire::cli {
namespace {

/// The largest number of multiprocessors to compile for. Kernels are cut for the number, and one that no GPU
/// has would take more memory than any machine has.
constexpr std::int64_t kMostMultiprocessors = 1024;

struct DumpRequest {
  runtime::NetworkRequest network;
  std::string stage = "ir", kernel, arch, card = "h100";
  std::string choices, diff;
  std::vector<std::string> tune;
  std::int64_t multiprocessors = 0;
  std::vector<std::string> overrides;
  EngineRequest engine;
  std::string colour = "auto";
  bool print_after_all = false, time_passes = false, summary = false, json = false, no_pager = false;
};

void declare(DumpRequest& request, Options& options) {
  declare_network(request.network, options);
  options.choice(
      "--stage", request.stage,
      {"ir", "joins", "rewritten", "step", "fused", "tile", "llvm", "asm", "cuda", "ptx", "plan", "times"},
      "ir: the model; joins: a line for each residual join; rewritten: after the plugins; step: the training "
      "step after all passes; "
      "fused: its kernels and calls; "
      "tile, llvm, asm: the kernels' code; cuda, ptx: their code for a GPU; no GPU is needed, but ptx needs "
      "NVRTC; plan: the places of its tensors in memory; times: the predicted times of its launches on "
      "--card");
  options.text("--kernel", request.kernel,
               "with --stage fused, tile, llvm, asm, cuda or ptx: only the kernel of this name; with llvm or "
               "asm, product is the code that multiplies matrices");
  options.choice(
      "--arch", request.arch, codegen::cuda::architecture_names(),
      "with --stage cuda or ptx: the GPU, sm_90 by default; with step, fused, tile or plan: compile "
      "for this GPU instead of the CPU");
  declare_device(request.engine, options);
  options.choice("--card", request.card, codegen::cuda::card_names(),
                 "with --stage times: the GPU; it sets --arch");
  options.integer(
      "--multiprocessors", request.multiprocessors, 1,
      "number of the GPU's multiprocessors, if it is not the largest of its --arch; rewire doctor prints it");
  options
      .list("--override-kernel", request.overrides,
            "with --stage ptx: NAME=FILE, CUDA C++ that replaces this kernel; repeatable")
      .takes(Values::named_file, {".cu"});
  options
      .text("--choices", request.choices,
            "a run's choices.json: use its choices, and the cost model's for all others")
      .takes(Values::file, {".json"});
  declare_tune(request.tune, options);
  options.flag("--print-after-all", request.print_after_all,
               "from --stage step on: print the text after each pass that changed something, on stderr");
  options.flag(
      "--summary", request.summary,
      "instead of a stage: print how many kernels and calls the step has, what they move and hold, what each "
      "plugin and each join adds, and how long compiling takes");
  options.flag("--json", request.json,
               "print the stage or the --summary as an object (docs/guide/explore.md)");
  options.flag("--time-passes", request.time_passes,
               "from --stage step on: print the time of each pass, on stderr");
  options.choice("--diff", request.diff, {"plain"},
                 "with --stage rewritten or step: print what the plugins change, as a diff");
  options.choice("--color", request.colour, {"auto", "always", "never"},
                 "auto: on a terminal, unless NO_COLOR is set");
  options.flag("--no-pager", request.no_pager,
               "on a terminal: print directly, not through $REWIRE_PAGER, $PAGER or less");
  options.example("rewire dump vit_tiny_28 --stage fused", "print the kernels and calls of a training step");
  options.example("rewire dump vit_tiny_28 --stage cuda --arch sm_90", "print its CUDA C++, without a GPU");
  options.example("rewire dump vit_tiny_28 --summary", "print what the step moves and holds");
}

bool is_gpu_text(const DumpRequest& request) {
  return request.stage == "cuda" || request.stage == "ptx";
}

bool is_of_device(const DumpRequest& request) {
  return request.engine.on_gpu();
}

bool is_for_gpu(const DumpRequest& request) {
  const bool host_text = request.stage == "llvm" || request.stage == "asm";
  return is_gpu_text(request) || is_of_device(request) || request.stage == "times" ||
         (!request.arch.empty() && !host_text);
}

runtime::ChoiceOptions choices_of(const DumpRequest& request) {
  return choice_options({request.choices, /*no_autotune=*/true, request.tune});
}

codegen::cuda::DeviceTarget gpu(const DumpRequest& request) {
  if (is_of_device(request)) {
    engine_of(request.engine);  // takes the device
    return runtime::target_of(runtime::cuda::device_facts(runtime::cuda::own_device()),
                              choices_of(request).given);
  }
  codegen::cuda::DeviceTarget target =
      request.stage == "times"
          ? codegen::cuda::card_target(codegen::cuda::card(request.card))
          : codegen::cuda::device_target(request.arch.empty() ? 90 : std::stoi(request.arch.substr(3)));
  if (request.multiprocessors > 0) target.multiprocessors = static_cast<int>(request.multiprocessors);
  target.block_warps = static_cast<int>(runtime::tuned(choices_of(request).given, "warps", 0));
  return target;
}

/// The compiled step. With --device cuda it also has its engine.
struct Step {
  codegen::Compiled compiled;
  std::unique_ptr<runtime::JitEngine> engine = nullptr;
};

/// Compiles for the CPU, or for a GPU that need not be present. Uses --choices, and else the cost model.
codegen::Compiled compile_by_model(const DumpRequest& request, const ir::Module& module,
                                   ir::PassContext& context) {
  const runtime::ChoiceOptions choices = choices_of(request);
  const codegen::Target target =
      is_for_gpu(request) ? runtime::gpu_target(gpu(request), choices) : codegen::Target();
  return runtime::lower_step(module, target, choices, context);
}

/// Compiles as the device's engine does, including its libraries.
Step compile_on_device(const DumpRequest& request, ir::Module module, ir::PassContext& context) {
  const std::string engine = engine_of(request.engine), program = module.functions.front().name;
  runtime::Tuner tuner = runtime::make_tuner(engine, choices_of(request));
  runtime::make_choices(module, {program}, tuner);
  Step step{{}, runtime::make_compiling_engine(engine, module, {.choices = tuner.record()})};
  step.compiled = step.engine->lower(program, context);
  return step;
}

/// Builds the step program of `forward` and compiles it.
Step make_step(const DumpRequest& request, const runtime::Network& network, ir::Module forward) {
  ir::Module module = runtime::step_module(network, std::move(forward));
  ir::PassContext context;
  if (request.print_after_all) {
    context.on_change = [](std::string_view pass, const std::string& text) {
      write_stderr(fmt::format("// after {}\n{}", pass, text));
    };
  }
  Step step = is_of_device(request) ? compile_on_device(request, std::move(module), context)
                                    : Step{compile_by_model(request, module, context)};
  if (request.time_passes) {
    for (const ir::PassTime& time : context.times)
      write_stderr(fmt::format("{:<24} {:8.2f} ms\n", time.pass, time.seconds.count() * 1e3));
  }
  return step;
}

std::string gpu_text(const codegen::KernelLaunch& launch, const DumpRequest& request, const Step& step,
                     const std::vector<runtime::KernelOverride>& overrides) {
  const codegen::cuda::DeviceTarget target = gpu(request);
  const std::string prelude(codegen::cuda::prelude());
  const std::string text = step.engine != nullptr
                               ? step.engine->kernel_text(launch).text
                               : codegen::cuda::emit(launch, launch.kernel.name, target).text;
  for (const runtime::KernelOverride& given : overrides) {
    if (given.kernel != launch.kernel.name) continue;
    runtime::require_same_launch(given, text);
    codegen::cuda::Compiled answer = codegen::cuda::try_compile(prelude + runtime::override_text(given),
                                                                target.arch, codegen::cuda::Output::ptx);
    if (!answer.accepted) runtime::refuse_override(given, answer.log);
    return std::move(answer.code);
  }
  if (request.stage == "cuda") return text;
  return codegen::cuda::compile_ptx(prelude + text, target.arch);
}

std::string kernel_text(const codegen::KernelLaunch& launch, const DumpRequest& request, const Step& step,
                        const std::vector<runtime::KernelOverride>& overrides) {
  if (request.stage == "tile") return codegen::tile::print(launch.kernel);
  if (is_gpu_text(request)) return gpu_text(launch, request, step, overrides);
  return request.stage == "llvm" ? codegen::emit_llvm(launch.kernel) : codegen::emit_assembly(launch.kernel);
}

/// Returns the index of the launch's member that --kernel names.
std::optional<std::size_t> named_member(const codegen::KernelLaunch& launch, const DumpRequest& request) {
  for (std::size_t member = 0; member < launch.members(); ++member) {
    if (launch.member_name(member) == request.kernel) return member;
  }
  return std::nullopt;
}

std::vector<const codegen::KernelLaunch*> kernel_launches(const codegen::Program& program) {
  std::vector<const codegen::KernelLaunch*> launches;
  for (const codegen::Launch& launch : program.launches) {
    if (const auto* kernel = std::get_if<codegen::KernelLaunch>(&launch)) launches.push_back(kernel);
  }
  return launches;
}

/// Throws UserError if no kernel has the name of --kernel.
void require_kernel(const std::vector<const codegen::KernelLaunch*>& launches, const DumpRequest& request) {
  if (request.kernel.empty()) return;
  std::vector<std::string> names;
  for (const codegen::KernelLaunch* launch : launches) {
    for (std::size_t member = 0; member < launch->members(); ++member)
      names.push_back(launch->member_name(member));
  }
  if (std::ranges::find(names, request.kernel) == names.end())
    user_error("the step has no kernel '{}'{}; --stage fused lists them", request.kernel,
               did_you_mean(request.kernel, names));
}

Syntax syntax_of(const DumpRequest& request) {
  if (request.stage == "llvm") return Syntax::llvm;
  if (request.stage == "asm") return Syntax::assembly;
  return is_gpu_text(request) ? Syntax::cpp : Syntax::rir;
}

void print_code(std::string_view text, const DumpRequest& request) {
  if (request.colour != "always") return write_stdout(text);
  write_styled(text, [&](std::string_view printable) { return coloured(printable, syntax_of(request)); });
}

void print_module(const ir::Module& module, const DumpRequest& request) {
  if (request.json) return print_json(runtime::module_json(module));
  print_code(ir::print(module), request);
}

void print_groups(const codegen::Program& program, const DumpRequest& request) {
  if (request.json) return print_json(runtime::program_json(program));
  if (request.kernel.empty()) return print_code(codegen::print(program), request);
  const std::vector<const codegen::KernelLaunch*> launches = kernel_launches(program);
  require_kernel(launches, request);
  for (const codegen::KernelLaunch* launch : launches) {
    if (const std::optional<std::size_t> member = named_member(*launch, request))
      print_code(codegen::print_kernel(program, *launch, *member), request);
  }
}

/// The name of the code that multiplies matrices on a CPU.
/// It is no kernel of a program: all products share it.
constexpr std::string_view kProduct = "product";

struct KernelCode {
  std::string name, text;
};

void print_codes(const std::vector<KernelCode>& codes, const DumpRequest& request) {
  if (!request.json) {
    for (const KernelCode& code : codes) print_code(code.text, request);
    return;
  }
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const KernelCode& code : codes) list.push_back({{"name", code.name}, {"text", code.text}});
  print_json({{"stage", request.stage}, {"kernels", std::move(list)}});
}

// Kernels with the same text share their code. It is printed once, at the first launch.
void print_kernels(const Step& step, const DumpRequest& request) {
  if (request.kernel == kProduct && request.stage == "llvm")
    return print_codes({{request.kernel, codegen::emit_product_llvm()}}, request);
  if (request.kernel == kProduct && request.stage == "asm")
    return print_codes({{request.kernel, codegen::emit_product_assembly()}}, request);
  const std::vector<const codegen::KernelLaunch*> launches = kernel_launches(step.compiled.program);
  const std::vector<runtime::KernelOverride> overrides = runtime::read_kernel_overrides(request.overrides);
  require_kernel(launches, request);
  for (const runtime::KernelOverride& given : overrides) runtime::overridden_launch(given, launches);
  std::set<std::string> seen;
  std::vector<KernelCode> codes;
  for (const codegen::KernelLaunch* launch : launches) {
    const std::string key = step.engine != nullptr ? step.engine->kernel_text(*launch).key
                            : is_gpu_text(request) ? codegen::cuda::text_key(*launch)
                                                   : codegen::tile::structure(launch->kernel);
    if (request.kernel.empty() ? !seen.insert(key).second : !named_member(*launch, request)) continue;
    codes.push_back({launch->kernel.name, kernel_text(*launch, request, step, overrides) + "\n"});
    if (request.json) continue;
    print_codes(codes, request);  // prints each kernel as soon as it is ready
    codes.clear();
  }
  if (request.json) print_codes(codes, request);
}

/// Compiles for this machine as `rewire bench` does, and reports the time.
runtime::EngineReport compile(const DumpRequest& request, const runtime::Network& network,
                              std::int64_t batch) {
  ir::Module module = runtime::step_module(network, runtime::training_module(network, batch));
  const std::string engine = runtime::engine_names().front(), program = runtime::step_program(network);
  runtime::Tuner tuner = runtime::make_tuner(engine, choices_of(request));
  runtime::make_choices(module, {program}, tuner);
  const std::unique_ptr<runtime::JitEngine> compiler = runtime::make_compiling_engine(
      engine, module, {static_cast<int>(network.recipe.train.threads), tuner.record()});
  compiler->prepare(program);
  return compiler->report();
}

void print_summary(const DumpRequest& request, const runtime::Network& network, std::int64_t batch) {
  const runtime::NetworkSource source = runtime::network_source(network);
  const std::vector<programs::NetworkFunction> forms =
      programs::make_objective(network.recipe.objective)->forms();
  const runtime::LowerStep lower_step = [&](std::vector<ir::Module> modules) {
    for (ir::Module& module : modules) runtime::set_precision(module, source);
    return make_step(request, network, runtime::join_forms(forms, std::move(modules))).compiled.program;
  };
  std::vector<ir::Module> plain;
  for (const programs::NetworkFunction& form : forms) plain.push_back(source.of(form, batch));
  Summary summary;
  summary.model = request.network.model;
  summary.program = runtime::step_program(network);
  summary.batch = batch;
  summary.counts = runtime::summarise_step(plain, source.plugins, source.seed, lower_step);
  if (!is_for_gpu(request)) summary.compiled = compile(request, network, batch);
  print_summary(summary, request.json);
}

void print_step(const Step& step, const DumpRequest& request, const runtime::Network& network) {
  const codegen::Program& program = step.compiled.program;
  if (request.stage == "step") {
    print_module(step.compiled.module, request);
  } else if (request.stage == "fused") {
    print_groups(program, request);
  } else if (request.stage == "plan") {
    const runtime::MemoryPlan plan = runtime::plan_memory(program);
    if (request.json) return print_json(runtime::memory_json(plan));
    print_code(runtime::print(program, plan), request);
  } else if (request.stage == "times") {
    print_times(program, gpu(request), codegen::cuda::card(request.card),
                {request.network.model, runtime::step_program(network), network.recipe.train.shard_batch(),
                 network.recipe.train.tf32, request.json});
  } else {
    print_kernels(step, request);
  }
}

void check(const DumpRequest& request) {
  if (request.multiprocessors > kMostMultiprocessors)
    user_error("dump: --multiprocessors {}: no GPU has more than {}", request.multiprocessors,
               kMostMultiprocessors);
  if (!request.overrides.empty() && request.stage != "ptx")
    user_error("dump: --override-kernel works only with --stage ptx");
  const bool of_a_stage = request.stage != DumpRequest().stage || !request.kernel.empty() ||
                          request.print_after_all || request.time_passes;
  if (request.summary && of_a_stage)
    user_error("dump: --summary is about the whole step: drop --stage and its options");
  if (request.json && request.stage == "fused" && !request.kernel.empty())
    user_error("dump: --json prints all kernels of --stage fused: drop --kernel");
  if (!request.diff.empty() && request.stage != "rewritten" && request.stage != "step")
    user_error("dump: --diff {} works only with --stage rewritten or step; rewire diff compares kernels",
               request.diff);
  if (!request.diff.empty() && request.json)
    user_error("dump: --diff {} prints text: drop --json; rewire diff --json prints an object", request.diff);
  if (is_of_device(request) && (!request.arch.empty() || request.multiprocessors > 0))
    user_error("dump: --device cuda uses the GPU of this machine: drop --arch and --multiprocessors");
  const std::vector<std::string> elsewhere = {"ir", "joins", "rewritten", "llvm", "asm", "times"};
  if (is_of_device(request) && !request.summary &&
      std::ranges::find(elsewhere, request.stage) != elsewhere.end())
    user_error(
        "dump: --stage {} does not work with --device cuda, which has step, fused, tile, cuda, ptx and plan",
        request.stage);
  if (request.stage == "times" && !request.arch.empty())
    user_error("dump: --stage times takes the architecture of --card: drop --arch");
  const std::vector<std::string> without_kernels = {"ir", "joins", "rewritten", "step", "plan", "times"};
  if (!request.kernel.empty() && std::ranges::find(without_kernels, request.stage) != without_kernels.end())
    user_error("dump: --kernel works only with --stage fused, tile, llvm, asm, cuda or ptx, not with {}",
               request.stage);
}

/// Prints a line for each join: its name, stage, stream, what the branch reads and ends in, and its plugins.
void print_joins(const std::vector<runtime::JoinRow>& rows, const DumpRequest& request) {
  if (request.json) return print_json(runtime::joins_json(rows));
  Table table(6);
  table.add({"join", "stage", "stream", "branch reads", "branch ends in", "plugins"});
  for (const runtime::JoinRow& row : rows) {
    const std::string& end = row.last_weight.empty() ? row.branch : row.last_weight;
    table.add({row.name, std::to_string(row.stage), ir::to_string(row.stream), row.input, end,
               fmt::format("{}", fmt::join(row.plugins, " + "))});
  }
  table.print();
}

ir::Module stage_module(const DumpRequest& request, const runtime::Network& network) {
  const std::int64_t batch = network.recipe.train.shard_batch();
  if (request.stage == "rewritten") return runtime::rewritten_module(network, batch);
  return make_step(request, network, runtime::training_module(network, batch)).compiled.module;
}

/// Prints a stage as a diff against the network without plugins.
void print_changes(const DumpRequest& request, const runtime::Network& network) {
  runtime::Network plain = network;
  plain.plugins.clear();
  const std::string diff = runtime::module_diff(stage_module(request, plain), stage_module(request, network));
  page(!request.no_pager, [&] {
    if (request.colour != "always") return write_stdout(diff);
    write_styled(diff, [](std::string_view printable) { return coloured(printable, Syntax::diff); });
  });
}

void run(const DumpRequest& asked) {
  check(asked);
  DumpRequest request = asked;
  request.colour = wants_colours(asked.colour) ? "always" : "never";  // before a pager takes the terminal
  const runtime::Network network = runtime::resolve_network(request.network);
  const std::int64_t batch = network.recipe.train.shard_batch();
  if (request.summary) return print_summary(request, network, batch);
  if (!request.diff.empty()) return print_changes(request, network);
  if (request.stage == "ir" || request.stage == "rewritten" || request.stage == "joins") {
    const ir::Module rewritten = runtime::rewritten_module(network, batch);  // checks the plugins
    if (request.stage == "joins") {
      const auto rows = runtime::join_rows(runtime::original_module(network, batch), rewritten);
      return page(!request.no_pager, [&] { print_joins(rows, request); });
    }
    const ir::Module module = request.stage == "ir" ? runtime::original_module(network, batch) : rewritten;
    return page(!request.no_pager, [&] { print_module(module, request); });
  }
  const Step step = make_step(request, network, runtime::training_module(network, batch));
  page(!request.no_pager, [&] { print_step(step, request, network); });
}

}  // namespace

Command dump_command() {
  return make_command<DumpRequest>("dump", "print the network as text, at a stage of compilation", declare,
                                   run);
}

}  // namespace rewire::cli
