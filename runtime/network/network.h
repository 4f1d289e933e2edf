// Builds the network of a request: MODEL (a recipe, a .rir file or a model's name) with settings and plugins
// over it. Recipes, models and plugins meet here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/network/run_programs.h"
#include "runtime/network/weights_origin.h"
#include "runtime/plugin/plugin.h"
#include "runtime/recipe/recipe.h"

namespace rewire::runtime {

struct NetworkRequest {
  std::string model;
  /// `settings`: "section.key=value" over the recipe. `plugins`: specs that replace the recipe's.
  /// `plugin_path`: folders searched before the usual ones.
  std::vector<std::string> settings, plugins, plugin_path;
  /// Runs plugins that a file names by path, and remembers them (runtime/plugin/trust_list.h).
  bool trust = false;
  /// MODEL and `plugins` come from a file, not from the command line.
  bool is_of_file = false;
  /// The run folder whose recipe MODEL is, or "". Its plugins are the libraries that it was made with
  /// (runtime/plugin/kept_plugins.h), unless `plugins` names others.
  std::string run = "";
  /// Accepts files of weights for a network with other plugins (weights_origin.h).
  bool other_strategy = false;
};

/// The text of a .rir file, and its module: with the file's own batch, or with a batch of 1 if the file takes any.
struct ModuleFile {
  std::string text;
  ir::Module module;
  bool any_batch = false;
};

struct Network {
  runtime::Recipe recipe;               // with all values of the model and plugins, and absolute paths
  std::optional<ModuleFile> from_file;  // of a .rir file
  std::vector<runtime::PluginHandle> plugins;
  bool other_strategy = false;  // as in the request
};

/// Reads the recipe or module and loads the plugins. Also throws UserError for a rewrite that would be
/// refused in a later epoch.
Network resolve_network(const NetworkRequest& request);

/// Returns the source of run programs. It refers to the network, which must outlive it.
runtime::NetworkSource network_source(const Network& network);

/// Returns the origin that files of its weights record (weights_origin.h).
WeightsOrigin origin_of(const Network& network, std::int64_t epoch = 0);

/// Returns `forward` before plugins. A .rir file that does not take any batch keeps its own, whatever is asked for. `side`: pixels
/// a side of the images; 0: the model's own; the weights are the same. Throws UserError if the network takes
/// no other size.
ir::Module original_module(const Network& network, std::int64_t batch, std::int64_t side = 0);
/// Returns the network up to its features; a module from a file is returned whole.
ir::Module backbone_module(const Network& network, std::int64_t batch);
/// Returns the functions that a training step of the recipe's objective calls, each like forward of
/// computed_module().
ir::Module training_module(const Network& network, std::int64_t batch);
/// Returns `forward` after the plugins' rewrites.
ir::Module rewritten_module(const Network& network, std::int64_t batch);
/// Returns `forward` after the rewrites, in the precision of train.dtype and train.tf32.
ir::Module computed_module(const Network& network, std::int64_t batch);

/// Returns the rank of a batch of images: 4 for the models, the argument's own for a .rir file.
int image_rank(const Network& network);

}  // namespace rewire::runtime
