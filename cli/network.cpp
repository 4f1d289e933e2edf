#include "cli/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "ir/error.h"
#include "ir/text.h"
#include "models/model.h"
#include "runtime/io/files.h"
#include "runtime/recipe/keys.h"
#include "runtime/train/run_plugins.h"

namespace rewire::cli {
namespace {

constexpr int kImageRank = 4;  // batch, channels, height, width

/// Takes each option that the recipe sets, and tells the recipe each that it leaves open.
models::ModelOptions settle_model(runtime::RecipeModel& recipe) {
  models::ModelOptions options =
      recipe.name == models::ModelOptions().name ? models::ModelOptions() : models::zoo(recipe.name);
  const auto settle = [](auto& asked, auto& option) {
    if (asked) option = *asked;
    asked = option;
  };
  settle(recipe.dim, options.dim);
  settle(recipe.depth, options.depth);
  settle(recipe.heads, options.heads);
  settle(recipe.mlp_ratio, options.mlp_ratio);
  settle(recipe.patch, options.patch);
  settle(recipe.image, options.image);
  settle(recipe.channels, options.channels);
  settle(recipe.classes, options.classes);
  settle(recipe.pool, options.pool);
  settle(recipe.act_layer, options.act_layer);
  settle(recipe.drop_path, options.drop_path);
  settle(recipe.dropout, options.dropout);
  return options;
}

void refuse_model_settings(const NetworkRequest& request, const std::string& file) {
  const auto setting = std::ranges::find_if(request.settings, [](const std::string& text) {
    return text.starts_with("model.") || text.starts_with("train.batch=") || text.starts_with("eval.batch=");
  });
  if (setting != request.settings.end()) {
    user_error("--set {}: {} is a module, its shapes are fixed in the file", *setting, file);
  }
}

std::string absolute(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

/// So that the recipe means the same wherever it is read again.
void make_paths_absolute(runtime::Recipe& recipe) {
  for (const runtime::RecipeKey& key : runtime::recipe_keys(recipe)) {
    if (!key.spec.is_path || !key.has_effect(recipe)) continue;
    const std::string path = std::get<std::string>(key.value().value());
    if (!path.empty()) key.set(absolute(path));
  }
  for (runtime::PluginSpec& spec : recipe.plugins) {
    if (spec.name.find('/') != std::string::npos) spec.name = absolute(spec.name);
  }
}

/// What to load for each plugin: what it is called, or a run's own copy.
std::vector<std::string> libraries_of(const NetworkRequest& request,
                                      const std::vector<runtime::PluginSpec>& plugins) {
  std::vector<std::string> names;
  for (const runtime::PluginSpec& spec : plugins) names.push_back(spec.name);
  if (request.run.empty() || !request.plugins.empty()) return names;
  const runtime::RunFolder folder = runtime::RunFolder::open(request.run);
  const std::vector<runtime::RecordedPlugin> recorded = runtime::recorded_plugins(folder);
  if (recorded.size() != names.size()) return names;  // the recipe was changed since
  for (std::size_t i = 0; i < names.size(); ++i) {
    // Nor is another plugin's copy taken where it names another.
    const bool is_path = names[i].find('/') != std::string::npos;
    if (names[i] == (is_path ? recorded[i].path : recorded[i].build.name))
      names[i] = runtime::library_of_run(folder, recorded[i], names[i], request.plugin_path);
  }
  return names;
}

/// What a plugin would be refused for when it goes on or off during training is refused at once.
void check_later_epochs(const Network& network) {
  for (const std::int64_t epoch : runtime::switch_epochs(network.plugins)) {
    if (epoch > 0) runtime::rewritten_forward(network_source(network), 1, epoch);
  }
}

/// A module's batch is fixed: training and evaluation take it.
void take_batch(const ir::Module& module, runtime::Recipe& recipe) {
  const ir::Function& forward = module.function("forward");
  recipe.train.batch = recipe.eval.batch = forward.type(forward.arguments[0].value).shape[0];
}

ir::Module read_module(const std::string& path) {
  const std::vector<std::byte> bytes = runtime::read_file(path);
  ir::Module module = ir::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
  const ir::Function* forward = module.find_function("forward");
  if (forward == nullptr) user_error("{}: the module has no function 'forward'", path);
  if (forward->arguments.empty() || forward->type(forward->arguments[0].value).rank() == 0) {
    user_error("{}: the first argument of 'forward' must be a tensor whose first axis is the batch", path);
  }
  return module;
}

}  // namespace

void declare_plugin_path(std::vector<std::string>& plugin_path, Options& options) {
  options.list("--plugin-path", plugin_path,
               "a folder to look for plugins in, before the usual ones; repeatable");
}

void declare_trust(bool& trust, Options& options) {
  options.flag("--trust", trust,
               "run the libraries that the recipe, sweep or run names by a path, and remember them");
}

void declare_network(NetworkRequest& request, Options& options, Options::Need model) {
  options.text("MODEL", request.model, "a recipe (.toml), a module (.rir) or a name of the zoo", model);
  options.list("--set", request.settings,
               "section.key=value: sets or overrides a key of the recipe; repeatable");
  options.list("--plugin", request.plugins,
               "NAME:key=value,...: replaces the recipe's plugins; none clears them; repeatable");
  declare_plugin_path(request.plugin_path, options);
  declare_trust(request.trust, options);
}

Network resolve(const NetworkRequest& request) {
  Network network;
  if (request.model.ends_with(".toml")) {
    network.recipe =
        runtime::read_recipe(request.model, request.settings,
                             request.run.empty() ? runtime::RecipeOf::anyone : runtime::RecipeOf::run);
  } else {
    network.recipe = runtime::parse_recipe("", request.model, request.settings);
  }
  std::string& model = network.recipe.model.name;
  if (!request.model.ends_with(".toml")) model = request.model;
  if (model.ends_with(".rir")) {
    // A recipe names a module from where it stands itself.
    if (request.model.ends_with(".toml"))
      model = (std::filesystem::path(request.model).parent_path() / model).string();
    refuse_model_settings(request, model);
    network.from_file = read_module(model);
    model = absolute(model);
    take_batch(*network.from_file, network.recipe);
  } else {
    settle_model(network.recipe.model);
  }
  runtime::override_plugins(network.recipe, request.plugins);
  make_paths_absolute(network.recipe);
  const bool of_command_line = !request.plugins.empty() && !request.plugins_of_file;
  const runtime::NamedBy named_by =
      of_command_line || request.trust ? runtime::NamedBy::user : runtime::NamedBy::file;
  const std::vector<std::string> libraries = libraries_of(request, network.recipe.plugins);
  for (std::size_t i = 0; i < libraries.size(); ++i) {
    runtime::PluginSpec& spec = network.recipe.plugins[i];
    network.plugins.push_back(
        runtime::load_plugin({libraries[i], spec.values}, request.plugin_path, named_by));
    const std::string& path = runtime::plugin_info(*network.plugins.back()).path;
    const bool is_given = std::ranges::any_of(request.plugin_path, [&](const std::string& folder) {
      return absolute(std::filesystem::path(path).parent_path().string()) == absolute(folder + "/.");
    });
    if (is_given) spec.name = absolute(path);  // the recipe finds it again without --plugin-path
    spec.values = runtime::plugin_values(*network.plugins.back());
  }
  check_later_epochs(network);
  return network;
}

runtime::NetworkSource network_source(const Network& network) {
  return {[&network](std::int64_t batch) { return original_module(network, batch); }, network.plugins,
          static_cast<std::uint64_t>(network.recipe.seed), runtime::mixed_precision(network.recipe),
          network.recipe.train.tf32};
}

ir::Module original_module(const Network& network, std::int64_t batch) {
  if (network.from_file) return *network.from_file;
  runtime::RecipeModel model = network.recipe.model;
  return models::build(settle_model(model), batch);
}

ir::Module rewritten_module(const Network& network, std::int64_t batch) {
  return runtime::rewritten_forward(network_source(network), batch, 0);
}

ir::Module computed_module(const Network& network, std::int64_t batch) {
  return runtime::computed_forward(network_source(network), batch, 0);
}

int image_rank(const Network& network) {
  if (!network.from_file) return kImageRank;
  const ir::Function& forward = network.from_file->function("forward");
  return forward.type(forward.arguments[0].value).rank();
}

}  // namespace rewire::cli
