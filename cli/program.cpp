#include "cli/program.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "ir/error.h"
#include "programs/objective.h"
#include "runtime/exec/make_engine.h"
#include "runtime/io/files.h"
#include "runtime/network/weights.h"

namespace rewire::cli {

void declare_program(ProgramRequest& request, Options& options, const std::string& input_doc,
                     Options::Need weights) {
  options
      .text("--weights", request.weights, "a safetensors file with every weight of the model and no other",
            weights)
      .takes(Values::file, {".safetensors"});
  options
      .list("--input", request.inputs,
            ".npy: " + input_doc + "; NAME=FILE for a network with other inputs, repeatable")
      .takes(Values::named_file, {".npy"});
  declare_engine(request.engine, options);
  declare_overrides(request.overrides, options);
}

namespace {

std::filesystem::path normal(const std::string& file) {
  return std::filesystem::absolute(file).lexically_normal();
}

}  // namespace

runtime::GivenInputs read_inputs(const ProgramRequest& request, const std::vector<std::string>& names) {
  runtime::GivenInputs given;
  const auto take = [&](const std::string& name, const std::string& file, const std::string& option) {
    if (std::ranges::find(names, name) == names.end()) {
      user_error("{}: there is no input '{}'{}; the inputs are {}", option, name, did_you_mean(name, names),
                 fmt::join(names, ", "));
    }
    if (given.contains(name)) user_error("{}: '{}' already has a file", option, name);
    given.emplace(name, runtime::read_given(file));
  };
  for (const std::string& input : request.inputs) {
    const std::size_t equals = input.find('=');
    const std::string name = input.substr(0, equals);
    const bool named = equals != std::string::npos &&
                       (std::ranges::find(names, name) != names.end() || !std::filesystem::exists(input));
    take(named ? name : names.at(0), named ? input.substr(equals + 1) : input, "--input " + input);
  }
  if (!request.labels.empty()) take("label", request.labels, "--labels " + request.labels);
  for (const std::string& name : names) {
    if (!given.contains(name))
      user_error("there is no file for '{}': give --input {}=FILE{}", name, name,
                 name == "label" ? " or --labels FILE" : "");
  }
  return given;
}

programs::Inputs training_inputs(const runtime::Network& network) {
  return runtime::training_inputs(runtime::network_source(network),
                                  *programs::make_objective(network.recipe.objective));
}

std::vector<std::string> names_of(const programs::Inputs& inputs) {
  std::vector<std::string> names;
  for (const programs::Input& input : inputs) names.push_back(input.name);
  return names;
}

std::int64_t batch_of(const runtime::GivenInputs& given, const programs::Inputs& inputs, bool stack) {
  const programs::Input& first = inputs.front();
  return runtime::batch_extent(given.at(first.name), first.type.rank(), stack, first.batch_axis);
}

void check_different(const std::vector<std::pair<std::string, std::string>>& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& [option, file] = outputs[i];
    for (std::size_t k = 0; k < i; ++k) {
      if (file.empty() || outputs[k].second.empty()) continue;
      if (normal(outputs[k].second) == normal(file))
        user_error("{} {} is also the file of {}: choose another", option, file, outputs[k].first);
    }
  }
}

namespace {

/// Returns whether the file exists and is inside the folder. Files inside a run must not be overwritten.
bool is_inside(const std::string& file, const std::string& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored) || !std::filesystem::exists(file, ignored))
    return false;
  const auto inner = std::filesystem::canonical(file, ignored),
             outer = std::filesystem::canonical(folder, ignored);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

/// Returns the run folder that the path is, or that contains it. Returns "" if there is none.
std::string run_around(const std::string& path) {
  std::error_code ignored;
  for (std::filesystem::path folder = std::filesystem::weakly_canonical(path, ignored);
       folder.has_relative_path(); folder = folder.parent_path()) {
    if (std::filesystem::is_regular_file(folder / "recipe.toml", ignored) &&
        std::filesystem::is_regular_file(folder / "metrics.jsonl", ignored))
      return folder.string();
  }
  return "";
}

}  // namespace

void check_output(const std::string& output, const std::vector<std::string>& read,
                  const std::string& option) {
  std::error_code ignored;
  const std::string run = std::filesystem::exists(output, ignored) ? run_around(output) : "";
  for (const std::string& folder : read) {
    if (is_inside(output, folder))
      user_error("{} {} is a file of the run {}: choose another", option, output, folder);
  }
  if (!run.empty()) user_error("{} {} is a file of the run {}: choose another", option, output, run);
  runtime::require_writable(output);
  for (const std::string& file : read) {
    std::error_code missing;
    if (std::filesystem::equivalent(output, file, missing))
      user_error("{} {} is also an input, {}: choose another", option, output, file);
  }
}

void check_output_folder(const std::string& output) {
  if (const std::string run = run_around(output); !run.empty())
    user_error("--output {} is the run folder {} or is inside it: choose another", output, run);
}

std::vector<std::string> files_of(const runtime::NetworkRequest& network) {
  std::vector<std::string> files = {network.model};
  for (const std::string& plugin : network.plugins) files.push_back(plugin.substr(0, plugin.find(':')));
  return files;
}

std::vector<std::string> files_of(const runtime::NetworkRequest& network, const ProgramRequest& program) {
  std::vector<std::string> files = files_of(network);
  files.insert(files.end(), {program.weights, program.labels});
  for (const std::string& given : program.inputs) {
    files.push_back(given);
    files.push_back(given.substr(given.find('=') + 1));
  }
  for (const std::string& given : program.overrides) files.push_back(given.substr(given.find('=') + 1));
  return files;
}

runtime::TensorMap read_weights(const runtime::Network& network, const ir::Module& module,
                                const std::string& file) {
  const runtime::WeightsOrigin origin = runtime::origin_of(network);
  return runtime::read_weights(module, runtime::FilePlace::of_user(file),
                               {.origin = &origin, .other_strategy = network.other_strategy});
}

std::unique_ptr<runtime::Engine> start_engine(const runtime::Network& network, const ir::Module& module,
                                              const ProgramRequest& request,
                                              const runtime::TensorMap& weights,
                                              const runtime::ChoiceRecord& choices) {
  std::unique_ptr<runtime::Engine> engine = runtime::make_engine(
      engine_of(request.engine), module,
      {.choices = choices, .overrides = runtime::read_kernel_overrides(request.overrides)});
  runtime::start_state(*engine, module, weights, static_cast<std::uint64_t>(network.recipe.seed));
  return engine;
}

}  // namespace rewire::cli
