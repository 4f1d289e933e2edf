#include "runtime/network/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "ir/error.h"
#include "ir/text.h"
#include "models/model.h"
#include "programs/objective.h"
#include "runtime/io/files.h"
#include "runtime/plugin/kept_plugins.h"
#include "runtime/recipe/keys.h"

namespace rewire::runtime {
namespace {

constexpr std::size_t kMostModuleBytes = std::size_t{1} << 28;
constexpr int kImageRank = 4;  // batch, channels, height, width
/// The option of models that resize their positions to the image.
constexpr std::string_view kPositionImage = "position_image";

void refuse_settings(const NetworkRequest& request, const std::string& file,
                     std::initializer_list<std::string_view> keys) {
  for (const std::string& setting : request.settings) {
    if (std::ranges::any_of(keys, [&](std::string_view key) { return setting.starts_with(key); }))
      user_error("--set {}: {} is a module, whose shapes are fixed in the file", setting, file);
  }
}

std::string absolute(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

/// Makes paths absolute, so that the recipe means the same wherever it is read again.
void make_paths_absolute(Recipe& recipe) {
  for (const RecipeKey& key : recipe_keys(recipe)) {
    if ((!key.spec.is_path && !key.spec.ends_in_path) || !key.has_effect(recipe)) continue;
    const std::string text = std::get<std::string>(key.value());
    const std::size_t begin = key.spec.is_path ? 0 : text.find(':') + 1;
    if (begin < text.size() && (key.spec.is_path || begin > 0))
      key.set(text.substr(0, begin) + absolute(text.substr(begin)));
  }
  for (PluginSpec& spec : recipe.plugins) {
    if (spec.name.find('/') != std::string::npos) spec.name = absolute(spec.name);
  }
}

/// Returns what to load for each plugin: the name that the recipe gives, or the run's own copy.
std::vector<std::string> libraries_of(const NetworkRequest& request, const std::vector<PluginSpec>& plugins) {
  std::vector<std::string> names;
  for (const PluginSpec& spec : plugins) names.push_back(spec.name);
  if (request.run.empty() || !request.plugins.empty()) return names;
  const std::vector<RecordedPlugin> recorded = recorded_plugins(request.run);
  if (recorded.size() != names.size()) return names;  // the recipe was changed since
  for (std::size_t i = 0; i < names.size(); ++i) {
    // The run's copy is taken only if the recipe still names the same plugin.
    const bool is_path = names[i].find('/') != std::string::npos;
    if (names[i] == (is_path ? recorded[i].path : recorded[i].build.name))
      names[i] = library_of_run(request.run, recorded[i], names[i], request.plugin_path);
  }
  return names;
}

/// Rewrites the network for each later epoch at which a plugin switches on or off.
/// So a refusal comes at once.
void check_later_epochs(const Network& network) {
  for (const std::int64_t epoch : switch_epochs(network.plugins)) {
    if (epoch > 0) rewritten_forward(network_source(network), 1, epoch);
  }
}

/// Training and evaluation take the module's batch if it is fixed.
void take_batch(const ir::Module& module, Recipe& recipe) {
  const ir::Function& forward = module.function("forward");
  recipe.train.batch = recipe.eval.batch = forward.type(forward.arguments[0].value).shape[0];
}

/// Returns the file that MODEL names.
FilePlace place_of_model(const NetworkRequest& request) {
  if (!request.run.empty()) return FilePlace::below(request.run, "recipe.toml");
  return request.is_of_file ? FilePlace(request.model) : FilePlace::of_user(request.model);
}

/// Returns the place of the module that the recipe MODEL names, relative to the recipe.
FilePlace place_of_module(const NetworkRequest& request, const std::string& name) {
  const bool is_in_run = !request.run.empty() && name.find('/') == std::string::npos;
  if (is_in_run) return FilePlace::below(request.run, name);
  return (std::filesystem::path(request.model).parent_path() / name).string();
}

ModuleFile read_module(const FilePlace& place) {
  const std::string& path = place.path();
  const std::vector<std::byte> bytes = read_file(place, kMostModuleBytes);
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  auto [module, any_batch] = ir::parse_for_batch(text, path, 1);
  const ir::Function* forward = module.find_function("forward");
  if (forward == nullptr) user_error("{}: the module has no function 'forward'", path);
  if (forward->arguments.empty() || forward->type(forward->arguments[0].value).rank() == 0) {
    user_error("{}: the first argument of 'forward' must be a tensor whose first axis is the batch", path);
  }
  return {std::move(text), std::move(module), any_batch};
}

/// Returns the module for a batch, if it takes any.
ir::Module with_batch(const ModuleFile& file, const std::string& name, std::int64_t batch) {
  return file.any_batch ? ir::parse_for_batch(file.text, name, batch).module : file.module;
}

}  // namespace

Network resolve_network(const NetworkRequest& request) {
  Network network;
  std::string& model = network.recipe.model.name;
  if (request.model.ends_with(".toml")) {
    network.recipe = read_recipe(place_of_model(request), request.settings,
                                 request.run.empty() ? RecipeOf::anyone : RecipeOf::run);
  } else {
    if (request.model.ends_with(".rir")) refuse_settings(request, request.model, {"model."});
    network.recipe.model.name = request.model;
    network.recipe = parse_recipe("", request.model, request.settings, RecipeOf::anyone, network.recipe);
    model = request.model;  // even if a setting changes model.name
  }
  check_shards(network.recipe);
  if (model.ends_with(".rir")) {
    const bool is_of_recipe = request.model.ends_with(".toml");
    const FilePlace module = is_of_recipe ? place_of_module(request, model) : place_of_model(request);
    model = module.path();
    refuse_settings(request, model, {"model."});
    network.from_file = read_module(module);
    if (!network.from_file->any_batch) {
      refuse_settings(request, model, {"train.batch=", "eval.batch="});
      take_batch(network.from_file->module, network.recipe);
    }
    model = absolute(model);
  } else {
    network.recipe.model.values = models::options_of(network.recipe.model);
  }
  override_plugins(network.recipe, request.plugins);
  make_paths_absolute(network.recipe);
  const bool of_command_line = !request.plugins.empty() && !request.is_of_file;
  const NamedBy named_by = of_command_line || request.trust ? NamedBy::user : NamedBy::file;
  const std::vector<std::string> libraries = libraries_of(request, network.recipe.plugins);
  for (std::size_t i = 0; i < libraries.size(); ++i) {
    PluginSpec& spec = network.recipe.plugins[i];
    network.plugins.push_back(load_plugin({libraries[i], spec.values}, request.plugin_path, named_by));
    const std::string& path = plugin_info(*network.plugins.back()).path;
    const bool is_given = std::ranges::any_of(request.plugin_path, [&](const std::string& folder) {
      return absolute(std::filesystem::path(path).parent_path().string()) == absolute(folder + "/.");
    });
    if (is_given) spec.name = absolute(path);  // the recipe finds it again without --plugin-path
    spec.values = plugin_values(*network.plugins.back());
  }
  check_later_epochs(network);
  network.other_strategy = request.other_strategy;
  network.recipe.train.other_strategy |= request.other_strategy;
  return network;
}

NetworkSource network_source(const Network& network) {
  return {.forward = [&network](std::int64_t batch) { return original_module(network, batch); },
          .plugins = network.plugins,
          .seed = static_cast<std::uint64_t>(network.recipe.seed),
          .precision = mixed_precision(network.recipe),
          .tf32 = network.recipe.train.tf32,
          .recompute = recompute_mode(network.recipe),
          .resized = [&network](std::int64_t batch,
                                std::int64_t side) { return original_module(network, batch, side); },
          .backbone = [&network](std::int64_t batch) { return backbone_module(network, batch); }};
}

WeightsOrigin origin_of(const Network& network, std::int64_t epoch) {
  return origin_of(network.recipe, network_source(network), epoch);
}

ir::Module original_module(const Network& network, std::int64_t batch, std::int64_t side) {
  ir::Selection model = network.recipe.model;
  if (side == 0)
    return network.from_file ? with_batch(*network.from_file, model.name, batch)
                             : models::build(model, batch);
  if (network.from_file || !model.values.has(kPositionImage)) {
    user_error(
        "the objective {} also takes images of {} pixels per side, which needs a model with the option {}, "
        "such as the family dino; {} does not have it",
        network.recipe.objective.name, side, kPositionImage, model.name);
  }
  if (model.values.get_int(kPositionImage) == 0)
    model.values.set(kPositionImage, model.values.get_int("image"));
  model.values.set("image", side);
  return models::build(model, batch);
}

ir::Module backbone_module(const Network& network, std::int64_t batch) {
  if (network.from_file) return original_module(network, batch);
  return models::build(models::backbone_of(network.recipe.model), batch);
}

ir::Module training_module(const Network& network, std::int64_t batch) {
  return computed_forms(network_source(network), programs::make_objective(network.recipe.objective)->forms(),
                        batch, 0);
}

ir::Module rewritten_module(const Network& network, std::int64_t batch) {
  return rewritten_forward(network_source(network), batch, 0);
}

ir::Module computed_module(const Network& network, std::int64_t batch) {
  return computed_forward(network_source(network), batch, 0);
}

int image_rank(const Network& network) {
  if (!network.from_file) return kImageRank;
  const ir::Function& forward = network.from_file->module.function("forward");
  return forward.type(forward.arguments[0].value).rank();
}

}  // namespace rewire::runtime
