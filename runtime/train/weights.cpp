#include "runtime/train/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "ir/error.h"
#include "models/model.h"
#include "runtime/io/safetensors.h"
#include "runtime/log.h"
#include "runtime/train/initialise.h"
#include "runtime/train/position_grid.h"

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

/// The position embedding of a grid of another extent; as it is where it is none, or no such grid.
HostTensor on_grid_of(HostTensor tensor, const ir::Module& module, const ir::Parameter& parameter,
                      const std::string& path, Positions positions) {
  const ir::TensorType type = tensor.type();
  const ir::Shape& wanted = parameter.type.shape;
  if (parameter.role != "pos_embed" || !is_float(type.dtype) || type.rank() != 3 || wanted.size() != 3 ||
      type.shape[0] != 1 || type.shape[2] != wanted[2] || type.shape[1] == wanted[1])
    return tensor;
  const std::optional<PositionGrid> from = position_grid(module, type.shape[1]);
  const std::optional<PositionGrid> to = position_grid(module, wanted[1]);
  if (!from || !to) return tensor;
  const std::string grids = fmt::format("{} x {} patches", from->side, from->side);
  if (positions == Positions::as_they_are) {
    user_error(
        "{}: '{}' is of {}, the model has {} x {}; train.resample_positions=true trains on from it resampled",
        path, parameter.name, grids, to->side, to->side);
  }
  write_log(LogLevel::info, fmt::format("{}: '{}' of {} is resampled to {} x {}", path, parameter.name, grids,
                                        to->side, to->side));
  return resample_positions(tensor, *from, to->side);
}

using Shapes = std::map<std::string, ir::Shape, std::less<>>;

/// PyTorch's batch norms count their batches beside the running statistics: at a momentum that is given, nothing reads it.
void drop_batch_counts(const ir::Module& module, TensorMap& tensors) {
  constexpr std::string_view kCount = "num_batches_tracked";
  std::erase_if(tensors, [&](const auto& entry) {
    const std::string& name = entry.first;
    if (!name.ends_with(kCount)) return false;
    const std::string norm = name.substr(0, name.size() - kCount.size());
    return module.find_parameter(norm + "running_mean") != nullptr;
  });
}

bool are_in(const Shapes& shapes, const ir::Module& module) {
  return std::ranges::all_of(module.parameters, [&](const ir::Parameter& parameter) {
    const auto found = shapes.find(parameter.name);
    return !parameter.is_weight() || (found != shapes.end() && found->second == parameter.type.shape);
  });
}

/// "; model.form=timm has them": another choice of one of the model's options whose weights a file has; "" if none.
std::string fitting_choice(const ir::Module& module, const Shapes& shapes) {
  const auto all = models::models();
  const auto model = std::ranges::find(all, module.name, &models::Model::name);
  if (model == all.end()) return "";
  ir::Selection same{module.name};
  for (const ir::ParameterSpec& option : (*model)->schema) {
    if (const ir::Attribute* value = module.attributes.find(option.name)) same.set(option.name, *value);
  }
  for (const ir::ParameterSpec& option : (*model)->schema) {
    for (const std::string& value : option.values) {
      ir::Selection other = same;
      try {
        if (are_in(shapes, models::build(other.set(option.name, value), 1)))
          return fmt::format("; model.{}={} has its weights", option.name, value);
      } catch (const UserError&) {  // the options do not go together
      }
    }
  }
  return "";
}

/// `choice`: asked where the shapes differ.
HostTensor fit(HostTensor tensor, const ir::Parameter& parameter, const std::string& path,
               const std::function<std::string()>& choice) {
  const ir::TensorType& type = tensor.type();
  if (type.shape != parameter.type.shape) {
    user_error("{}: '{}' has the shape {}; the model's has {}{}", path, parameter.name,
               ir::to_string(type.shape), ir::to_string(parameter.type.shape), choice());
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

TensorMap read_weights(const ir::Module& module, const std::string& path, const ir::Module* required,
                       Positions positions) {
  return fit_weights(module, read_safetensors(path), path, required, positions);
}

TensorMap fit_weights(const ir::Module& module, SafetensorsFile file, const std::string& path,
                      const ir::Module* required, Positions positions) {
  TensorMap weights;
  drop_batch_counts(module, file.tensors);
  Shapes given_shapes;
  for (const auto& [name, tensor] : file.tensors) given_shapes.emplace(name, tensor.type().shape);
  const auto choice = [&] { return fitting_choice(module, given_shapes); };
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
    HostTensor given = on_grid_of(std::move(found->second), module, parameter, path, positions);
    weights.emplace(parameter.name, fit(std::move(given), parameter, path, choice));
    file.tensors.erase(found);
  }
  if (!missing.empty()) {
    user_error("{}: it lacks {} of the model{}", path, enumerate(missing),
               fitting_choice(module, given_shapes));
  }
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

void begin_averages(const ir::Module& module, TensorMap& state) {
  for (const ir::Parameter& parameter : module.parameters) {
    if (parameter.average_of.empty() || state.contains(parameter.name)) continue;
    const auto weight = state.find(parameter.average_of);
    if (weight == state.end()) internal_error("the average '{}' begins before its weight", parameter.name);
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
