// rewire repro: writes a folder that reproduces one kernel or one failure, and runs such a folder again.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/network.h"
#include "cli/program.h"
#include "cli/streams.h"
#include "cli/table.h"
#include "codegen/cuda/emit.h"
#include "ir/error.h"
#include "programs/programs.h"
#include "runtime/network/lowered.h"
#include "runtime/network/weights.h"
#include "runtime/recipe/recipe.h"
#include "runtime/repro/make_case.h"
#include "runtime/repro/run_failure.h"
#include "runtime/run/run_folder.h"
#include "runtime/run/trained_network.h"
#include "runtime/verify/engine_check.h"
#include "runtime/verify/perturbed_state.h"

namespace rewire::cli {
namespace {

constexpr std::int64_t kMegabyte = 1000000;
constexpr std::int64_t kCheckedBatch = 2;  // the same as in verify
constexpr int kGpuOfText = 90;

struct ReproRequest {
  runtime::NetworkRequest network;
  ProgramRequest program;
  std::string kernel, output;
  bool failure = false, with_plugins = false, json = false;
  std::int64_t most_megabytes = 1;
};

void declare(ReproRequest& request, Options& options) {
  options
      .text("MODEL", request.network.model,
            "a recipe, a module, a zoo model or a run folder; or a folder that repro wrote, to run it again",
            Options::Need::required)
      .takes(Values::trained);
  declare_changes(request.network, options);
  options.text("--kernel", request.kernel,
               "the kernel of the training step to cut out, as dump --stage fused names it");
  options.flag("--failure", request.failure,
               "look for a failure: of the plugins, of compiling, in a step that is not finite, of the "
               "compiled program");
  options.text("--output", request.output, "the folder to write, new or empty").takes(Values::folder);
  options
      .text("--weights", request.program.weights,
            "with --failure: the weights of the step, a safetensors file")
      .takes(Values::file, {".safetensors"});
  options
      .list("--input", request.program.inputs,
            "with --failure: NAME=FILE.npy, inputs of the step; random by default")
      .takes(Values::named_file, {".npy"});
  options.integer("--most", request.most_megabytes, 0,
                  "largest tensor to store, in megabytes; a larger one is made from a seed");
  options.flag("--with-plugins", request.with_plugins, "also copy the plugins' libraries into the folder");
  options.flag("--json", request.json, "when a folder is run again: print an object");
  options.example("rewire repro vit_tiny_28 --kernel blocks_1_norm1_rows_64x50x192 --output norm",
                  "cut out a kernel of the training step");
  options.example("rewire repro vit_tiny_28 --plugin orthogonal --failure --output broken",
                  "write the first failure");
}

// ---- run again

nlohmann::ordered_json outcome_json(const runtime::ReproOutcome& outcome) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const runtime::ReproRow& row : outcome.rows) {
    rows.push_back({{"name", row.name},
                    {"elements", row.elements},
                    {"error", row.error},
                    {"allowed", row.allowed},
                    {"passed", row.passed()}});
  }
  return {{"subject", outcome.subject}, {"passed", outcome.passed()}, {"message", outcome.message},
          {"ms", outcome.milliseconds}, {"results", std::move(rows)}, {"notes", outcome.notes}};
}

void print_outcome(const runtime::ReproOutcome& outcome) {
  for (const std::string& note : outcome.notes) print("note: {}\n", note);
  if (outcome.kind == runtime::ReproKind::kernel) print("kernel {}\n", outcome.subject);
  if (outcome.rows.empty()) {
    print("{}\n", outcome.message.empty() ? "it does not fail here" : outcome.message);
    return;
  }
  Table table(1);
  table.add({"result", "elements", "error", "allowed", ""});
  for (const runtime::ReproRow& row : outcome.rows) {
    table.add({row.name, std::to_string(row.elements), fmt::format("{:.1e}", row.error),
               fmt::format("{:.1e}", row.allowed), row.passed() ? "" : "WRONG"});
  }
  table.print();
  print("{:.3f} ms\n", outcome.milliseconds);
}

void run_again(const ReproRequest& request) {
  const runtime::ReproOutcome outcome =
      runtime::replay_case(request.network.model, request.network.plugin_path, request.network.trust);
  request.json ? print_json(outcome_json(outcome)) : print_outcome(outcome);
  if (outcome.passed()) return;
  if (!outcome.message.empty())
    throw RuntimeFailure(fmt::format("{}: it fails as before", request.network.model));
  const auto wrong = std::ranges::find_if_not(outcome.rows, &runtime::ReproRow::passed);
  throw RuntimeFailure(
      fmt::format("{}: {} differs from what the evaluator computes (error {:.1e}, above {:.1e})",
                  request.network.model, wrong->name, wrong->error, wrong->allowed));
}

// ---- inputs of a program

/// Returns those initial weights of the network and its plugins that the program has.
runtime::TensorMap fresh_weights_of(const runtime::Network& network, const ir::Module& program) {
  const ir::Module module = runtime::training_module(network, network.recipe.train.shard_batch());
  runtime::TensorMap weights =
      runtime::fresh_weights(module, network.plugins, static_cast<std::uint64_t>(network.recipe.seed));
  std::erase_if(weights, [&](const auto& weight) { return program.find_parameter(weight.first) == nullptr; });
  return weights;
}

/// Returns the first state of a run. Its weights come from the file, or else are the initial ones.
runtime::TensorMap state_of_step(const ReproRequest& request, const runtime::Network& network,
                                 const ir::Module& module) {
  const auto seed = static_cast<std::uint64_t>(network.recipe.seed);
  const runtime::TensorMap weights = request.program.weights.empty()
                                         ? fresh_weights_of(network, module)
                                         : read_weights(network, module, request.program.weights);
  return runtime::first_state(module, weights, seed);
}

runtime::TensorMap inputs_of_step(const ReproRequest& request, const runtime::Network& network,
                                  const ir::Module& module, const ir::Function& step) {
  const auto seed = static_cast<std::uint64_t>(network.recipe.seed);
  runtime::TensorMap inputs = runtime::random_arguments(module, step, seed);
  if (request.program.inputs.empty()) return inputs;
  std::vector<std::string> names;
  for (const ir::Argument& argument : step.arguments) names.push_back(argument.name);
  for (const std::string& given : request.program.inputs) {
    const std::size_t equals = given.find('=');
    if (equals == std::string::npos) user_error("repro: --input {}: write NAME=FILE", given);
    const std::string name = given.substr(0, equals);
    if (!inputs.contains(name))
      user_error("repro: --input {}: the step has no input '{}'{}", given, name, did_you_mean(name, names));
    runtime::GivenTensor tensor = runtime::read_given(given.substr(equals + 1));
    runtime::check_batch(module, step, name, tensor);
    inputs[name] = std::move(tensor.tensor);
  }
  return inputs;
}

// ---- writing

std::vector<runtime::ReproPlugin> plugins_of(const std::vector<runtime::PluginHandle>& plugins) {
  std::vector<runtime::ReproPlugin> list;
  for (const runtime::PluginHandle& plugin : plugins) {
    const runtime::PluginInfo& info = runtime::plugin_info(*plugin);
    list.push_back({info.name, info.version, info.sha256, runtime::plugin_values(*plugin)});
  }
  return list;
}

/// Removes the folders from a file's path, because other people need not know them.
std::string without_folders(const std::string& text, char previous = '\0') {
  const std::size_t begin = previous == '\0' ? 0 : std::min(text.find(previous) + 1, text.size());
  const std::size_t slash = text.rfind('/');
  return slash == std::string::npos || slash < begin ? text : text.substr(0, begin) + text.substr(slash + 1);
}

/// Removes the folders from NAME in NAME:KEY=VALUE,...
std::string plugin_without_folders(const std::string& text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  return without_folders(text.substr(0, colon)) + text.substr(colon);
}

/// Returns MODEL, settings and plugins as on the command line, without folders.
std::string command_of(const runtime::NetworkRequest& network) {
  std::string text = without_folders(network.run.empty() ? network.model : network.run);
  for (const std::string& setting : network.settings) text += " --set " + without_folders(setting, '=');
  for (const std::string& plugin : network.plugins) text += " --plugin " + plugin_without_folders(plugin);
  return text;
}

void write(const ReproRequest& request, runtime::ReproCase made,
           const std::vector<runtime::PluginHandle>& plugins, std::uint64_t seed) {
  made.model = command_of(request.network);
  made.seed = seed;
  made.plugins = plugins_of(plugins);
  std::vector<std::string> libraries;
  if (request.with_plugins) {
    for (const runtime::PluginHandle& plugin : plugins)
      libraries.push_back(runtime::plugin_info(*plugin).path);
  }
  const bool same_code = made.same_code;
  const std::string subject = made.subject;
  const std::string command = runtime::replay_command(made, request.output, request.with_plugins);
  runtime::write_case(request.output, std::move(made), request.most_megabytes * kMegabyte, libraries);
  print("{}\n", subject);
  if (!same_code) print("note: on its own it compiles to other code than in the whole program\n");
  print("run it again: {}\n", command);
}

/// Returns the CUDA C++ of the kernel with this name, or ""
/// if the step has no such kernel when compiled for a GPU.
std::string cuda_text(const ir::Module& module, const std::string& kernel) {
  const runtime::ChoiceOptions choices{{}, false};
  const codegen::cuda::DeviceTarget gpu = codegen::cuda::device_target(kGpuOfText);
  ir::PassContext context;
  const codegen::Target target = runtime::gpu_target(gpu, choices);
  for (const codegen::Launch& launch :
       runtime::lower_step(module, target, choices, context).program.launches) {
    const auto* one = std::get_if<codegen::KernelLaunch>(&launch);
    if (one != nullptr && one->kernel.name == kernel) return codegen::cuda::emit(*one, kernel, gpu).text;
  }
  return "";
}

void write_kernel(const ReproRequest& request) {
  const runtime::Network network = runtime::resolve_network(request.network);
  const auto seed = static_cast<std::uint64_t>(network.recipe.seed);
  const ir::Module module =
      runtime::step_module(network, runtime::training_module(network, network.recipe.train.shard_batch()));
  runtime::ChoiceRecord choices;
  ir::PassContext context;
  const codegen::Compiled compiled = runtime::lower_step(module, {}, {{}, false}, context, &choices);
  const runtime::TensorMap weights = fresh_weights_of(network, module);
  runtime::ReproCase made = runtime::kernel_case(
      compiled, request.kernel, runtime::random_arguments(module, module.functions.front(), seed),
      runtime::perturbed_tensors(module, weights, seed));
  made.choices = choices;
  if (const std::string text = cuda_text(module, request.kernel); !text.empty())
    made.texts["kernel.cu"] = text;
  write(request, std::move(made), network.plugins, seed);
}

// ---- failures

/// Returns the plugins of the command line, or else of the recipe.
std::vector<runtime::PluginSpec> wanted_plugins(const runtime::NetworkRequest& network) {
  std::vector<runtime::PluginSpec> specs;
  if (network.plugins.empty() && network.model.ends_with(".toml"))
    return runtime::read_recipe(runtime::FilePlace::of_user(network.model), network.settings).plugins;
  for (const std::string& text : network.plugins) {
    if (text != "none") specs.push_back(runtime::parse_plugin_spec(text));
  }
  return specs;
}

/// If plugins are refused, writes them and the network
/// without them, and returns true. Otherwise returns false.
bool write_refusal(const ReproRequest& request) {
  const std::vector<runtime::PluginSpec> specs = wanted_plugins(request.network);
  if (specs.empty()) return false;
  runtime::NetworkRequest without = request.network;
  without.plugins = {"none"};
  const runtime::Network network = runtime::resolve_network(without);
  std::vector<runtime::PluginHandle> plugins;
  for (const runtime::PluginSpec& spec : specs)
    plugins.push_back(runtime::load_plugin(spec, request.network.plugin_path,
                                           request.network.plugins.empty() && !request.network.trust
                                               ? runtime::NamedBy::file
                                               : runtime::NamedBy::user));
  const auto seed = static_cast<std::uint64_t>(network.recipe.seed);
  runtime::ReproCase made;
  made.kind = runtime::ReproKind::refusal;
  made.module = runtime::original_module(network, network.recipe.train.shard_batch());
  made.function = "forward";
  made.subject = runtime::refusal_of(made.module, plugins, seed);
  if (made.subject.empty()) return false;
  write(request, std::move(made), plugins, seed);
  return true;
}

bool write_compile_failure(const ReproRequest& request, const runtime::Network& network,
                           const ir::Module& module) {
  runtime::ReproCase made;
  made.kind = runtime::ReproKind::compile;
  made.function = module.functions.front().name;
  made.subject = runtime::compile_failure_of(module, made.function);
  if (made.subject.empty()) return false;
  made.module = module;
  write(request, std::move(made), network.plugins, static_cast<std::uint64_t>(network.recipe.seed));
  return true;
}

bool write_non_finite_of_run(const ReproRequest& request, const runtime::Network& network) {
  std::optional<runtime::ReproCase> found = runtime::non_finite_of_run(network, request.network.run);
  if (!found) return false;
  write(request, std::move(*found), network.plugins, static_cast<std::uint64_t>(network.recipe.seed));
  return true;
}

bool write_non_finite(const ReproRequest& request, const runtime::Network& network,
                      const ir::Module& module) {
  runtime::ReproCase made;
  made.kind = runtime::ReproKind::non_finite;
  made.module = module;
  made.function = module.functions.front().name;
  made.state = state_of_step(request, network, module);
  made.inputs = inputs_of_step(request, network, module, module.functions.front());
  made.subject = runtime::non_finite_in(module, made.function, made.inputs, made.state);
  if (made.subject.empty()) return false;
  write(request, std::move(made), network.plugins, static_cast<std::uint64_t>(network.recipe.seed));
  return true;
}

/// Compares as verify does. Writes the first kernel that
/// is wrong by itself, or else the whole gradient program.
bool write_difference(const ReproRequest& request, const runtime::Network& network) {
  const auto seed = static_cast<std::uint64_t>(network.recipe.seed);
  ir::Module module = runtime::training_module(network, kCheckedBatch);
  programs::add_grad_program(module, runtime::train_options(network.recipe, 1));
  const runtime::TensorMap weights = runtime::fresh_weights(module, network.plugins, seed);
  const auto engine = runtime::make_engine(runtime::engine_names().front(), module);
  const auto evaluator = runtime::make_engine("evaluator", module);
  if (runtime::check_engine(*engine, *evaluator, module, weights, seed).passed()) return false;
  std::erase_if(module.functions, [](const ir::Function& function) { return function.name != "grad"; });
  module.drop_unused_parameters();
  const runtime::TensorMap inputs = runtime::random_arguments(module, module.functions.front(), seed);
  runtime::TensorMap state = runtime::perturbed_tensors(module, weights, seed);
  ir::PassContext context;
  const codegen::Compiled compiled = runtime::lower_step(module, {}, {{}, false}, context);
  if (std::optional<runtime::ReproCase> wrong = runtime::wrong_kernel(compiled, inputs, state)) {
    write(request, std::move(*wrong), network.plugins, seed);
    return true;
  }
  runtime::ReproCase made;
  made.kind = runtime::ReproKind::program;
  made.subject = "the gradient program";
  made.module = std::move(module);
  made.function = "grad";
  for (const auto& [name, tensor] : inputs) made.inputs[name] = tensor.clone();
  made.state = std::move(state);
  write(request, std::move(made), network.plugins, seed);
  return true;
}

void write_failure(const ReproRequest& request) {
  std::optional<runtime::Network> network;
  try {
    network = runtime::resolve_network(request.network);
    runtime::rewritten_module(*network, network->recipe.train.shard_batch());
  } catch (const UserError&) {
    if (write_refusal(request)) return;
    throw;
  }
  // A run has a step of its own, which depends on the length of its epochs.
  if (!request.network.run.empty() && write_non_finite_of_run(request, *network)) return;
  const ir::Module module =
      runtime::step_module(*network, runtime::training_module(*network, network->recipe.train.shard_batch()));
  if (write_compile_failure(request, *network, module)) return;
  if (request.network.run.empty() && write_non_finite(request, *network, module)) return;
  if (write_difference(request, *network)) return;
  print(
      "nothing fails in the plugins' rewrites, compiling, one step, and the compiled program against the "
      "evaluator\n");
}

void run(const ReproRequest& asked) {
  ReproRequest request = asked;
  std::string& model = request.network.model;
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(model, error);
  const bool writes = !request.kernel.empty() || request.failure;
  if (!writes) {
    if (is_folder && runtime::is_case(model)) return run_again(request);
    user_error(
        "repro: {} is not a folder that repro wrote; to write one, give --kernel NAME or --failure, and "
        "--output FOLDER",
        model);
  }
  if (!request.kernel.empty() && request.failure)
    user_error("repro: --kernel and --failure cannot be combined: drop one");
  if (request.output.empty()) user_error("repro: give --output FOLDER, the folder to write");
  check_output_folder(request.output);
  runtime::require_free(request.output);
  if (!request.failure && (!request.program.weights.empty() || !request.program.inputs.empty()))
    user_error("repro: --weights and --input work only with --failure: drop them or --kernel");
  if (is_folder) {
    if (request.failure && (!request.program.weights.empty() || !request.program.inputs.empty()))
      user_error("repro: {} is a run with its own weights and data: drop --weights and --input", model);
    request.network = runtime::request_of_run(request.network, runtime::RunFolder::open(model));
  }
  request.failure ? write_failure(request) : write_kernel(request);
}

}  // namespace

Command repro_command() {
  return make_command<ReproRequest>("repro", "write or run a folder that reproduces a kernel or a failure",
                                    declare, run);
}

}  // namespace rewire::cli
