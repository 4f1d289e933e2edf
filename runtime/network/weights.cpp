#include "runtime/network/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "ir/error.h"
#include "programs/objective.h"
#include "runtime/device/log.h"
#include "runtime/io/safetensors.h"
#include "runtime/network/initialise.h"
#include "runtime/network/position_grid.h"
#include "runtime/network/weights_forms.h"
#include "runtime/network/weights_hint.h"
#include "runtime/network/weights_names.h"

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

/// Returns a position embedding resampled to the parameter's grid. Returns other tensors, and those
/// without such a grid, unchanged.
HostTensor on_grid_of(HostTensor tensor, const ir::Module& module, const ir::Parameter& parameter,
                      const std::string& path, const std::optional<models::PositionRule>& rule) {
  const ir::TensorType type = tensor.type();
  const ir::Shape& wanted = parameter.type.shape;
  if (parameter.role != "pos_embed" || !is_float(type.dtype) || type.rank() != 3 || wanted.size() != 3 ||
      type.shape[0] != 1 || type.shape[2] != wanted[2])
    return tensor;
  const bool same_count = type.shape[1] == wanted[1];
  if (same_count && !rule) return tensor;
  const std::optional<PositionGrids> grids = position_grids(module, wanted[2], type.shape[1], wanted[1]);
  if (!grids) return tensor;
  const PositionGrid &from = grids->from, &to = grids->to;
  if (same_count && from.rows == to.rows) return tensor;
  if (!rule) {
    user_error(
        "{}: '{}' has {} x {} patches, but the model has {} x {}; train.resample_positions=true resamples "
        "it, in "
        "`rewire train` and `rewire init`",
        path, parameter.name, from.rows, from.columns, to.rows, to.columns);
  }
  write_log(LogLevel::info, fmt::format("{}: '{}' is resampled from {} x {} patches to {} x {}", path,
                                        parameter.name, from.rows, from.columns, to.rows, to.columns));
  return resample_positions(tensor, from, to, *rule);
}

/// PyTorch's batch norms also store a count of batches. With a given momentum, nothing reads it.
constexpr std::string_view kCount = "num_batches_tracked";
void drop_batch_counts(const ir::Module& module, TensorMap& tensors) {
  std::erase_if(tensors, [&](const auto& entry) {
    const std::string& name = entry.first;
    if (!name.ends_with(kCount)) return false;
    const std::string norm = name.substr(0, name.size() - kCount.size());
    return module.find_parameter(norm + "running_mean") != nullptr;
  });
}

/// Calls `choice` for a hint if the shapes differ.
HostTensor fit(HostTensor tensor, const ir::Parameter& parameter, const std::string& path,
               const std::function<std::string()>& choice) {
  const ir::TensorType& type = tensor.type();
  if (type.shape != parameter.type.shape) {
    std::string hint = choice();
    if (hint.empty() && is_head(parameter)) hint = "; train.new_head=true starts a new head";
    user_error("{}: '{}' has the shape {}, but the model's has {}{}", path, parameter.name,
               ir::to_string(type.shape), ir::to_string(parameter.type.shape), hint);
  }
  if (type.dtype == parameter.type.dtype) return tensor;
  if (!is_float(type.dtype) || !is_float(parameter.type.dtype)) {
    user_error("{}: '{}' is {}, but the model's is {}", path, parameter.name, to_string(type),
               to_string(parameter.type));
  }
  return convert(tensor, parameter.type.dtype);
}

/// Keeps only the tensors under the prefix, and removes the prefix from their names.
void take_prefix(TensorMap& tensors, const std::string& prefix, const std::string& path) {
  if (prefix.empty()) return;
  TensorMap taken;
  for (auto& [name, tensor] : tensors) {
    if (name.starts_with(prefix)) taken.emplace(name.substr(prefix.size()), std::move(tensor));
  }
  if (taken.empty()) {
    user_error("{}: no tensor's name begins with train.weights_prefix '{}'; the first is '{}'", path, prefix,
               tensors.empty() ? "" : tensors.begin()->first);
  }
  tensors = std::move(taken);
}

/// Returns the module that knows its model and options. A run's module of all phases does not.
const ir::Module& network_of(const ir::Module& module, const WeightsFit& how) {
  return how.required != nullptr ? *how.required : module;
}

TensorMap fit_tensors(const ir::Module& module, SafetensorsFile file, const std::string& path,
                      const WeightsFit& how) {
  TensorMap weights;
  take_prefix(file.tensors, how.prefix, path);
  read_names(module, network_of(module, how), file.tensors, path);
  take_forms(network_of(module, how), file.tensors, path);
  drop_batch_counts(module, file.tensors);
  WeightShapes given_shapes;
  for (const auto& [name, tensor] : file.tensors) {
    if (!name.ends_with(kCount)) given_shapes.emplace(name, tensor.type().shape);
  }
  if (how.new_head) {
    const std::vector<std::string> replaced = replaced_norms(module, given_shapes);
    for (const std::string& name : replaced) file.tensors.erase(name);
    if (!replaced.empty())
      write_log(LogLevel::info,
                fmt::format("{}: its norm is left out: the network has one after the pooling", path));
  }
  const auto choice = [&] {
    return weights_hint(network_of(module, how), given_shapes,
                        {how.required != nullptr, how.new_head, how.further});
  };
  std::vector<std::string> missing;
  std::vector<std::string> names;
  for (const ir::Parameter& parameter : module.parameters) {
    if (!parameter.is_weight()) continue;
    names.push_back(parameter.name);
    const bool is_optional = how.new_head && is_head(parameter);
    const auto found = file.tensors.find(parameter.name);
    if (found == file.tensors.end()) {
      if ((how.new_head && starts_with_head(module, parameter)) || programs::is_remembered(parameter.name) ||
          (how.required != nullptr && how.required->find_parameter(parameter.name) == nullptr))
        continue;
      missing.push_back(fmt::format("'{}' {}", parameter.name, to_string(parameter.type)));
      continue;
    }
    if (!is_optional) {
      HostTensor given = on_grid_of(std::move(found->second), module, parameter, path, how.positions);
      weights.emplace(parameter.name, fit(std::move(given), parameter, path, choice));
    }
    file.tensors.erase(found);
  }
  if (!missing.empty()) {
    user_error("{}: it lacks {}, which the model needs{}", path, enumerate(missing), choice());
  }
  std::erase_if(file.tensors, [](const auto& one) { return programs::is_remembered(one.first); });
  std::vector<std::string> unexpected;
  for (const auto& [name, tensor] : file.tensors) {
    unexpected.push_back(fmt::format("'{}' {}", name, to_string(tensor.type())));
  }
  if (how.further && !unexpected.empty()) {
    write_log(LogLevel::info,
              fmt::format("{}: {} of its tensors are left out because the network does not have them: {}",
                          path, unexpected.size(), enumerate(unexpected)));
    return weights;
  }
  if (!unexpected.empty()) {
    const std::string other = choice();
    user_error("{}: the model has no {}{}", path, enumerate(unexpected),
               other.empty() ? did_you_mean(file.tensors.begin()->first, names) : other);
  }
  return weights;
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

TensorMap read_weights(const ir::Module& module, const FilePlace& place, const WeightsFit& how) {
  return fit_weights(module, read_safetensors(place), place.path(), how);
}

TensorMap fit_weights(const ir::Module& module, SafetensorsFile file, const std::string& path,
                      const WeightsFit& how) {
  const std::string untold =
      file.metadata.contains(kOriginKey) ? "" : untold_options(network_of(module, how));
  const std::string origin =
      how.origin == nullptr ? "" : check_origin(file.metadata, path, *how.origin, how.other_strategy);
  TensorMap weights = fit_tensors(module, std::move(file), path, how);
  if (!untold.empty()) write_log(LogLevel::warning, fmt::format("{}: {}", path, untold));
  if (!origin.empty()) write_log(LogLevel::info, fmt::format("{}: {}", path, origin));
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
  write_log(LogLevel::info,
            fmt::format("{}: {} of the network's {} weights are not in it and start fresh: {}", path,
                        fresh.size(), count, enumerate(fresh)));
  write_log(LogLevel::debug, fmt::format("{}: it lacks {}", path, fmt::join(fresh, ", ")));
}

TensorMap fresh_state(const ir::Module& module, const TensorMap& given, std::uint64_t seed) {
  ir::Module rest;
  for (const ir::Parameter& parameter : module.parameters) {
    if (!given.contains(parameter.name)) rest.add_parameter(parameter);
  }
  return initialise(rest, seed);
}

TensorMap first_state(const ir::Module& module, const TensorMap& weights, std::uint64_t seed) {
  TensorMap state;
  for (const auto& [name, tensor] : weights) state.emplace(name, tensor.clone());
  begin_averages(module, state);
  state.merge(fresh_state(module, state, seed));
  return state;
}

void start_state(Engine& engine, const ir::Module& module, const TensorMap& weights, std::uint64_t seed) {
  for (const auto& [name, tensor] : first_state(module, weights, seed)) engine.write_state(name, tensor);
}

void begin_averages(const ir::Module& module, TensorMap& state) {
  for (const ir::Parameter& parameter : module.parameters) {
    if (parameter.average_of.empty() || state.contains(parameter.name)) continue;
    const auto weight = state.find(parameter.average_of);
    if (weight == state.end())
      internal_error("the average '{}' is initialised before its weight", parameter.name);
    state.emplace(parameter.name, weight->second.clone());
  }
}

TensorMap weights_of(const Engine& engine, const ir::Module& module) {
  TensorMap weights;
  for (const ir::Parameter& parameter : module.parameters) {
    if (parameter.is_weight()) weights.emplace(parameter.name, engine.read_state(parameter.name));
  }
  return weights;
}

TensorMap averages_of(const Engine& engine, const ir::Module& module) {
  TensorMap averages;
  for (const ir::Parameter& parameter : module.parameters) {
    if (!parameter.average_of.empty())
      averages.emplace(parameter.average_of, engine.read_state(parameter.name));
  }
  if (averages.empty()) return averages;
  for (const ir::Parameter& parameter : module.parameters) {
    if (parameter.is_weight() && !averages.contains(parameter.name))
      averages.emplace(parameter.name, engine.read_state(parameter.name));
  }
  return averages;
}

}  // namespace rewire::runtime
