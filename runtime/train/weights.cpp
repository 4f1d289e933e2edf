#include "runtime/train/weights.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "runtime/io/safetensors.h"
#include "runtime/log.h"
#include "runtime/train/initialise.h"

namespace rewire::runtime {
namespace {

constexpr std::size_t kNamesShown = 3;

/// "'a' f32[2], 'b' f32[3] and 7 more".
std::string enumerate(const std::vector<std::string>& items) {
  const std::size_t shown = std::min(items.size(), kNamesShown);
  std::string text =
      fmt::format("{}", fmt::join(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (items.size() > shown) text += fmt::format(" and {} more", items.size() - shown);
  return text;
}

HostTensor fit(HostTensor tensor, const ir::Parameter& parameter, const std::string& path) {
  const ir::TensorType& type = tensor.type();
  if (type.shape != parameter.type.shape) {
    user_error("{}: '{}' has the shape {}; the model's has {}", path, parameter.name,
               ir::to_string(type.shape), ir::to_string(parameter.type.shape));
  }
  if (type.dtype == parameter.type.dtype) return tensor;
  if (!is_float(type.dtype) || !is_float(parameter.type.dtype)) {
    user_error("{}: '{}' is {}; the model's is {}", path, parameter.name, to_string(type),
               to_string(parameter.type));
  }
  return convert(tensor, parameter.type.dtype);
}

}  // namespace

TensorMap fresh_weights(const ir::Module& module, const std::vector<PluginHandle>& plugins,
                        std::uint64_t seed, std::int64_t epoch, std::vector<Initialised>* hooks) {
  TensorMap state = initialise(module, seed);
  std::vector<Initialised> wrote = initialise_plugins(module, plugins, seed, state, epoch);
  if (hooks != nullptr) *hooks = std::move(wrote);
  for (const ir::Parameter& parameter : module.parameters) {
    if (!parameter.is_weight()) state.erase(parameter.name);
  }
  return state;
}

TensorMap read_weights(const ir::Module& module, const std::string& path, const ir::Module* required) {
  return fit_weights(module, read_safetensors(path), path, required);
}

TensorMap fit_weights(const ir::Module& module, SafetensorsFile file, const std::string& path,
                      const ir::Module* required) {
  TensorMap weights;
  std::vector<std::string> missing;
  std::vector<std::string> names;
  for (const ir::Parameter& parameter : module.parameters) {
    if (!parameter.is_weight()) continue;
    names.push_back(parameter.name);
    const auto found = file.tensors.find(parameter.name);
    if (found == file.tensors.end()) {
      if (required != nullptr && required->find_parameter(parameter.name) == nullptr) continue;
      missing.push_back(fmt::format("'{}' {}", parameter.name, to_string(parameter.type)));
      continue;
    }
    weights.emplace(parameter.name, fit(std::move(found->second), parameter, path));
    file.tensors.erase(found);
  }
  if (!missing.empty()) user_error("{}: it lacks {} of the model", path, enumerate(missing));
  std::vector<std::string> unexpected;
  for (const auto& [name, tensor] : file.tensors) {
    unexpected.push_back(fmt::format("'{}' {}", name, to_string(tensor.type())));
  }
  if (!unexpected.empty()) {
    user_error("{}: the model has no {}{}", path, enumerate(unexpected),
               did_you_mean(file.tensors.begin()->first, names));
  }
  return weights;
}

void log_weights_left_fresh(const ir::Module& module, const TensorMap& given, const std::string& path) {
  std::vector<std::string> fresh;
  std::size_t count = 0;
  for (const ir::Parameter& parameter : module.parameters) {
    if (!parameter.is_weight()) continue;
    ++count;
    if (!given.contains(parameter.name)) fresh.push_back(fmt::format("'{}'", parameter.name));
  }
  if (fresh.empty()) return;
  write_log(LogLevel::info, fmt::format("{}: it lacks {} of the network's {} weights, which start fresh: {}",
                                        path, fresh.size(), count, enumerate(fresh)));
  write_log(LogLevel::debug, fmt::format("{}: it lacks {}", path, fmt::join(fresh, ", ")));
}

TensorMap fresh_state(const ir::Module& module, const TensorMap& given, std::uint64_t seed) {
  ir::Module rest;
  for (const ir::Parameter& parameter : module.parameters) {
    if (!given.contains(parameter.name)) rest.add_parameter(parameter);
  }
  return initialise(rest, seed);
}

void start_state(Engine& engine, const ir::Module& module, const TensorMap& weights, std::uint64_t seed) {
  for (const auto& [name, tensor] : weights) engine.write_state(name, tensor);
  for (const auto& [name, tensor] : fresh_state(module, weights, seed)) engine.write_state(name, tensor);
}

TensorMap weights_of(const Engine& engine, const ir::Module& module) {
  TensorMap weights;
  for (const ir::Parameter& parameter : module.parameters) {
    if (parameter.is_weight()) weights.emplace(parameter.name, engine.read_state(parameter.name));
  }
  return weights;
}

}  // namespace rewire::runtime
