// rewire export: writes a network for other programs: as PyTorch's source with its weights, as a model of ONNX, or the
// weights alone.
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <optional>

#include "cli/commands.h"
#include "cli/network.h"
#include "cli/program.h"
#include "cli/streams.h"
#include "ir/error.h"
#include "ir/optimizer_hint.h"
#include "runtime/export/export_function.h"
#include "runtime/export/onnx_model.h"
#include "runtime/export/torch_source.h"
#include "runtime/io/files.h"
#include "runtime/io/safetensors.h"
#include "runtime/network/run_programs.h"
#include "runtime/network/weights.h"
#include "runtime/run/trained_network.h"

namespace rewire::cli {
namespace {

/// Two batches, whose difference says which extents are the batch's.
constexpr std::int64_t kSmallBatch = 2, kLargeBatch = 5;

struct ExportRequest {
  runtime::NetworkRequest network;
  std::string weights, checkpoint, format = "torch", output;
  bool averages = false, external_data = false;
};

void declare(ExportRequest& request, Options& options) {
  options
      .text("MODEL", request.network.model,
            "a run folder, or a recipe (.toml), a module (.rir) or a zoo model", Options::Need::required)
      .takes(Values::trained);
  options.choice("--format", request.format, {"torch", "onnx", "safetensors"},
                 "torch: a PyTorch module as Python source, and its weights beside it under the same name as "
                 ".safetensors; onnx: a model for inference (opset 18); safetensors: the weights alone");
  options.text("--output", request.output, "the file to write", Options::Need::required)
      .takes(Values::file, {".py", ".onnx", ".safetensors"});
  options
      .text("--weights", request.weights,
            "the weights of this file; without it and without a run, those that a run with the seed begins "
            "with")
      .takes(Values::file, {".safetensors"});
  options
      .text("--checkpoint", request.checkpoint,
            "best, last or the name of a checkpoint of the run; the last by default")
      .takes(Values::checkpoint);
  options.flag("--ema", request.averages, "use the moving averages of the run's weights (train.ema)");
  options.flag("--external-data", request.external_data,
               "with onnx: put the weights into a file beside it, OUTPUT.data, as those of 2 GiB always are");
  declare_changes(request.network, options);
  options.example("rewire export vit_s_cifar --plugin orthogonal --output net.py",
                  "write net.py, a PyTorch module, and net.safetensors, its weights");
  options.example("rewire export runs/fashion_vit-none-s0 --format onnx --output net.onnx",
                  "write a run's network for ONNX Runtime");
  options.example("rewire export runs/fashion_vit-none-s0 --format safetensors --output w.safetensors",
                  "write a run's weights");
}

std::vector<runtime::TorchStrategy> strategies_of(const runtime::Network& network) {
  std::vector<runtime::TorchStrategy> strategies;
  for (const runtime::PluginHandle& plugin : network.plugins) {
    const runtime::PluginInfo& info = runtime::plugin_info(*plugin);
    std::vector<std::string> values;
    for (const auto& [name, value] : runtime::plugin_values(*plugin)) values.push_back(name + "=" + value);
    strategies.push_back({.name = info.name,
                          .lines = {fmt::format("{} {}: {}", info.name, info.version, info.doc),
                                    fmt::format("Values: {}", fmt::join(values, " ")),
                                    fmt::format("Library: SHA-256 {}", info.sha256)}});
  }
  return strategies;
}

/// Says what PyTorch's form does not keep of a run.
std::vector<std::string> notes_of(const ir::Module& module) {
  std::vector<std::string> notes;
  for (const ir::Parameter& parameter : module.parameters) {
    const std::string hint = ir::to_string(parameter.hint);
    if (!hint.empty())
      notes.push_back(fmt::format("Own settings of the optimizer in a run: {}: {}.", parameter.name, hint));
  }
  if (module.find_parameter("rng.seed") != nullptr) {
    notes.push_back("Random numbers have the same distributions as in a run, and are others.");
  }
  return notes;
}

/// The rewritten network at one or two batches; a file's may have one only.
struct Forwards {
  ir::Module small;
  std::optional<ir::Module> large;
};

Forwards forwards_of(const runtime::TrainedNetwork& trained) {
  const runtime::Network& network = trained.network;
  const runtime::NetworkSource source = runtime::network_source(network);
  Forwards forwards{runtime::rewritten_forward(source, kSmallBatch, trained.epoch), std::nullopt};
  if (!network.from_file || network.from_file->any_batch) {
    forwards.large = runtime::rewritten_forward(source, kLargeBatch, trained.epoch);
  }
  runtime::take_apart(forwards.small, runtime::has_torch_form);
  if (forwards.large) runtime::take_apart(*forwards.large, runtime::has_torch_form);
  return forwards;
}

std::string torch_text(const runtime::TrainedNetwork& trained, const runtime::WeightsOrigin& origin,
                       const Forwards& forwards, const std::string& weights_file) {
  const ir::Module& small = forwards.small;
  runtime::TorchRequest request;
  request.strategies = strategies_of(trained.network);
  request.forward = {.module = &small, .function = &small.function("forward"), .batch = kSmallBatch};
  if (forwards.large) {
    request.forward.larger = &forwards.large->function("forward");
    request.forward.larger_batch = kLargeBatch;
  }
  std::vector<std::string> plugins;
  for (const runtime::TorchStrategy& strategy : request.strategies) plugins.push_back(strategy.name);
  const ir::Function& forward = *request.forward.function;
  request.about = {fmt::format("{}{}{} for PyTorch. Written by rewire {} export.", small.name,
                               plugins.empty() ? "" : " with ", fmt::join(plugins, " and "), REWIRE_VERSION),
                   "", "    net = Net()",
                   fmt::format("    net.load_state_dict(safetensors.torch.load_file(\"{}\"))", weights_file),
                   ""};
  for (const ir::Argument& argument : forward.arguments) {
    const ir::TensorType& type = forward.type(argument.value);
    std::vector<std::string> extents;
    for (const std::int64_t extent : type.shape) extents.push_back(std::to_string(extent));
    if (forwards.large && !extents.empty()) extents[0] = "batch";
    request.about.push_back(
        fmt::format("{}: {} [{}]", argument.name, ir::dtype_name(type.dtype), fmt::join(extents, ", ")));
  }
  std::vector<std::string> constants;
  for (const auto& [key, value] : origin.normalisation) constants.push_back(key + " " + value);
  if (trained.run && !constants.empty()) {
    request.about.push_back(
        fmt::format("Pixels of 0 to 1 are normalised first, by {}.", fmt::join(constants, " and ")));
  }
  request.about.push_back(trained.run ? "The weights are a run's."
                          : trained.weights.file.empty()
                              ? fmt::format("The weights are those with which a run begins, by seed {}.",
                                            trained.network.recipe.seed)
                              : "The weights are those of a file.");
  for (const std::string& note : notes_of(small)) request.about.push_back(note);
  return runtime::torch_source(request);
}

void write_model(const ExportRequest& request, const Forwards& forwards, const runtime::TensorMap& weights,
                 const std::map<std::string, std::string>& metadata) {
  runtime::write_onnx(request.output, {.network = &forwards.small,
                                       .larger = forwards.large ? &*forwards.large : nullptr,
                                       .batch = kSmallBatch,
                                       .larger_batch = kLargeBatch,
                                       .weights = &weights,
                                       .metadata = metadata,
                                       .is_external = request.external_data});
}

/// Checks the files that are to be written, and returns that of the weights.
std::string check_outputs(const ExportRequest& request) {
  static const std::map<std::string, std::string> kEndings{
      {"torch", ".py"}, {"onnx", ".onnx"}, {"safetensors", ".safetensors"}};
  std::vector<std::string> read = files_of(request.network);
  if (!request.weights.empty()) read.push_back(request.weights);
  const std::filesystem::path output = request.output;
  const std::string& wanted = kEndings.at(request.format);
  if (output.extension() != wanted) {
    user_error("--output: --format {} writes a file that ends in {}, not '{}'", request.format, wanted,
               request.output);
  }
  if (request.external_data && request.format != "onnx") {
    user_error("--external-data is for --format onnx, not {}", request.format);
  }
  check_output(request.output, read);
  if (request.format == "onnx") {
    if (request.external_data) check_output(runtime::onnx_data_file(request.output), read);
    return "";
  }
  const std::string weights = std::filesystem::path(output).replace_extension(".safetensors").string();
  if (weights != request.output) check_output(weights, read);
  return weights;
}

void run(const ExportRequest& request) {
  const std::string weights_file = check_outputs(request);
  runtime::TrainedNetwork trained = runtime::find_trained(
      {request.network, request.weights, request.checkpoint, request.averages}, runtime::Untrained::allowed);
  const runtime::Network& network = trained.network;
  const ir::Module module = runtime::rewritten_forward(runtime::network_source(network), 1, trained.epoch);
  const bool has_file = !trained.weights.file.empty();
  const auto weights = [&] {
    return has_file ? runtime::read_trained_weights(trained, module)
                    : runtime::fresh_weights(module, network.plugins,
                                             static_cast<std::uint64_t>(network.recipe.seed));
  };
  const runtime::WeightsOrigin origin = runtime::origin_of(network, trained.epoch);
  const auto metadata = runtime::origin_metadata(origin);
  if (request.format == "onnx") return write_model(request, forwards_of(trained), weights(), metadata);
  std::string text;
  if (request.format == "torch") {
    text = torch_text(trained, origin, forwards_of(trained),
                      std::filesystem::path(weights_file).filename().string());
  }
  runtime::write_safetensors(weights_file, weights(), metadata);
  if (!text.empty()) runtime::write_file_atomically({request.output}, text);
}

}  // namespace

Command export_command() {
  return make_command<ExportRequest>("export", "write a network for PyTorch or ONNX, or its weights alone",
                                     declare, run);
}

}  // namespace rewire::cli
