#include "runtime/train/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "ir/error.h"
#include "models/model.h"
#include "programs/objective.h"
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
                      const std::string& path, const std::optional<Cubic>& cubic) {
  const ir::TensorType type = tensor.type();
  const ir::Shape& wanted = parameter.type.shape;
  if (parameter.role != "pos_embed" || !is_float(type.dtype) || type.rank() != 3 || wanted.size() != 3 ||
      type.shape[0] != 1 || type.shape[2] != wanted[2] || type.shape[1] == wanted[1])
    return tensor;
  const std::optional<PositionGrids> grids = position_grids(module, wanted[2], type.shape[1], wanted[1]);
  if (!grids) return tensor;
  const std::int64_t from = grids->from.side, to = grids->to.side;
  if (!cubic) {
    user_error(
        "{}: '{}' is of {} x {} patches, the model has {} x {}; train.resample_positions=timm (or deit) "
        "trains on "
        "from it resampled",
        path, parameter.name, from, from, to, to);
  }
  write_log(LogLevel::info, fmt::format("{}: '{}' of {} x {} patches is resampled to {} x {}", path,
                                        parameter.name, from, from, to, to));
  return resample_positions(tensor, grids->from, to, *cubic);
}

using Shapes = std::map<std::string, ir::Shape, std::less<>>;

/// PyTorch's batch norms count their batches beside the running statistics: at a momentum that is given, nothing reads it.
constexpr std::string_view kCount = "num_batches_tracked";
void drop_batch_counts(const ir::Module& module, TensorMap& tensors) {
  std::erase_if(tensors, [&](const auto& entry) {
    const std::string& name = entry.first;
    if (!name.ends_with(kCount)) return false;
    const std::string norm = name.substr(0, name.size() - kCount.size());
    return module.find_parameter(norm + "running_mean") != nullptr;
  });
}

bool is_head(const ir::Parameter& parameter) {
  return parameter.role == "head";
}

/// How far a file's weights are a module's. names: each is there with as many axes; shapes: and with its extents, but for
/// the head's number of classes.
enum class Likeness : std::uint8_t { none, names, shapes };
Likeness likeness(const Shapes& shapes, const ir::Module& module) {
  Likeness found = Likeness::shapes;
  std::size_t weights = 0;
  for (const ir::Parameter& parameter : module.parameters) {
    if (!parameter.is_weight()) continue;
    ++weights;
    const auto given = shapes.find(parameter.name);
    if (given == shapes.end() || given->second.size() != parameter.type.shape.size()) return Likeness::none;
    const std::ptrdiff_t begin = is_head(parameter) && !given->second.empty() ? 1 : 0;
    if (!std::equal(given->second.begin() + begin, given->second.end(), parameter.type.shape.begin() + begin))
      found = Likeness::names;
  }
  return weights == shapes.size() ? found : Likeness::none;
}

/// Another choice of an option of the model, and how far its weights are the file's.
struct Choice {
  std::string setting;  // "model.form=timm"
  ir::Module module;
  Likeness likeness = Likeness::none;
};

/// The closest of all choices of one option.
Choice closest_choice(const models::Model& model, const ir::Selection& base, const Shapes& shapes) {
  Choice closest;
  for (const ir::ParameterSpec& option : model.schema) {
    for (const std::string& value : option.values) {
      ir::Selection other = base;
      try {
        ir::Module module = models::build(other.set(option.name, value), 1);
        const Likeness found = likeness(shapes, module);
        if (found > closest.likeness)
          closest = {fmt::format("model.{}={}", option.name, value), std::move(module), found};
      } catch (const UserError&) {  // the options do not go together
      }
    }
  }
  return closest;
}

/// "; <model> with model.form=timm, model.classes=1000 has its weights": the number of classes where the module's head has
/// another.
std::string told(const std::string& model, std::string setting, const ir::Module& module,
                 const Shapes& shapes) {
  const auto head = std::ranges::find_if(module.parameters, is_head);
  if (head != module.parameters.end()) {
    const std::int64_t classes = shapes.find(head->name)->second.at(0);
    if (classes != head->type.shape.at(0))
      setting += fmt::format("{}model.classes={}", setting.empty() ? "" : ", ", classes);
  }
  const std::string_view with = model.empty() || setting.empty() ? "" : " with ";
  return fmt::format("; {}{}{} has its weights", model, with, setting);
}

/// "; model.form=timm has them": another choice of one of the model's options, or another model of the zoo, that has
/// weights like a file's; "" if none.
std::string fitting_choice(const ir::Module& module, const Shapes& shapes) {
  const auto all = models::models();
  const auto model = std::ranges::find(all, module.name, &models::Model::name);
  const Likeness as_it_is = likeness(shapes, module);
  if (model == all.end() || as_it_is == Likeness::shapes) return "";
  ir::Selection same{module.name};
  for (const ir::ParameterSpec& option : (*model)->schema) {
    if (const ir::Attribute* value = module.attributes.find(option.name)) same.set(option.name, *value);
  }
  const Choice own = closest_choice(**model, same, shapes);
  if (own.likeness == Likeness::shapes) return told("", own.setting, own.module, shapes);
  for (const models::Model* other : all) {
    if (other->values.empty() && !other->family->variants.empty()) continue;  // a variant says which it is
    const ir::Module built = models::build({other->name}, 1);
    if (likeness(shapes, built) == Likeness::shapes)
      return told("the model " + other->name, "", built, shapes);
    const Choice choice = closest_choice(*other, {other->name}, shapes);
    if (choice.likeness == Likeness::shapes)
      return told("the model " + other->name, choice.setting, choice.module, shapes);
  }
  if (own.likeness == Likeness::names && as_it_is == Likeness::none)
    return fmt::format("; {} has weights of these names", own.setting);
  return "";
}

/// `choice`: asked where the shapes differ.
HostTensor fit(HostTensor tensor, const ir::Parameter& parameter, const std::string& path,
               const std::function<std::string()>& choice) {
  const ir::TensorType& type = tensor.type();
  if (type.shape != parameter.type.shape) {
    std::string hint = choice();
    if (hint.empty() && is_head(parameter)) hint = "; train.new_head=true starts a head of its own";
    user_error("{}: '{}' has the shape {}; the model's has {}{}", path, parameter.name,
               ir::to_string(type.shape), ir::to_string(parameter.type.shape), hint);
  }
  if (type.dtype == parameter.type.dtype) return tensor;
  if (!is_float(type.dtype) || !is_float(parameter.type.dtype)) {
    user_error("{}: '{}' is {}; the model's is {}", path, parameter.name, to_string(type),
               to_string(parameter.type));
  }
  return convert(tensor, parameter.type.dtype);
}

/// Leaves those under the prefix, without it.
void take_prefix(TensorMap& tensors, const std::string& prefix, const std::string& path) {
  if (prefix.empty()) return;
  TensorMap taken;
  for (auto& [name, tensor] : tensors) {
    if (name.starts_with(prefix)) taken.emplace(name.substr(prefix.size()), std::move(tensor));
  }
  if (taken.empty()) {
    user_error("{}: no tensor's name begins with '{}', as train.weights_prefix has it; the first is '{}'",
               path, prefix, tensors.empty() ? "" : tensors.begin()->first);
  }
  tensors = std::move(taken);
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

TensorMap read_weights(const ir::Module& module, const FilePlace& file, const WeightsFit& how) {
  return fit_weights(module, read_safetensors(file), file.path(), how);
}

TensorMap fit_weights(const ir::Module& module, SafetensorsFile file, const std::string& path,
                      const WeightsFit& how) {
  if (how.origin != nullptr) check_origin(file.metadata, path, *how.origin, how.other_strategy);
  TensorMap weights;
  take_prefix(file.tensors, how.prefix, path);
  drop_batch_counts(module, file.tensors);
  Shapes given_shapes;
  for (const auto& [name, tensor] : file.tensors) {
    if (!name.ends_with(kCount)) given_shapes.emplace(name, tensor.type().shape);
  }
  const auto choice = [&] { return fitting_choice(module, given_shapes); };
  std::vector<std::string> missing;
  std::vector<std::string> names;
  for (const ir::Parameter& parameter : module.parameters) {
    if (!parameter.is_weight()) continue;
    names.push_back(parameter.name);
    const bool is_optional = how.new_head && is_head(parameter);
    const auto found = file.tensors.find(parameter.name);
    if (found == file.tensors.end()) {
      if (is_optional || programs::is_remembered(parameter.name) ||
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
    user_error("{}: it lacks {} of the model{}", path, enumerate(missing), choice());
  }
  std::erase_if(file.tensors, [](const auto& one) { return programs::is_remembered(one.first); });
  std::vector<std::string> unexpected;
  for (const auto& [name, tensor] : file.tensors) {
    unexpected.push_back(fmt::format("'{}' {}", name, to_string(tensor.type())));
  }
  if (how.further && !unexpected.empty()) {
    write_log(LogLevel::info,
              fmt::format("{}: {} of its tensors are left out, which the network does not have: {}", path,
                          unexpected.size(), enumerate(unexpected)));
    return weights;
  }
  if (!unexpected.empty()) {
    const std::string other = choice();
    user_error("{}: the model has no {}{}", path, enumerate(unexpected),
               other.empty() ? did_you_mean(file.tensors.begin()->first, names) : other);
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
  write_log(LogLevel::info,
            fmt::format("{}: {} of the network's {} weights are not from it and start fresh: {}", path,
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
