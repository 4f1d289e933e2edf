// The network that a command line asks for: MODEL (a recipe, a .rir file or a zoo name) with --set, --plugin
// and
// --plugin-path. This is where recipes, models and plugins meet.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "ir/module.h"
#include "runtime/plugin/plugin.h"
#include "runtime/recipe/recipe.h"
#include "runtime/train/run_programs.h"

namespace rewire::cli {

struct NetworkRequest {
  std::string model;
  std::vector<std::string> settings, plugins, plugin_path;
  /// Plugins that a file names by their paths are run, and remembered (runtime/plugin/trust_list.h).
  bool trust = false;
  /// It is a file, and not the command line, that `plugins` are from.
  bool plugins_of_file = false;
  /// The run folder whose recipe MODEL is, or "". Its plugins are the libraries that it was made with
  /// (runtime/train/run_plugins.h), unless `plugins` names others.
  std::string run = "";
};
void declare_network(NetworkRequest& request, Options& options,
                     Options::Need model = Options::Need::required);
void declare_plugin_path(std::vector<std::string>& plugin_path, Options& options);
void declare_trust(bool& trust, Options& options);

struct Network {
  runtime::Recipe recipe;  // with every value of the model and the plugins filled in, and absolute paths
  std::optional<ir::Module> from_file;  // the module of a .rir file
  std::vector<runtime::PluginHandle> plugins;
};

/// Reads the recipe or module and loads the plugins. UserError also for a rewrite that would be refused in
/// any later epoch.
Network resolve(const NetworkRequest& request);

/// What the runtime's run programs are built from; it refers to the network, which must outlive it.
runtime::NetworkSource network_source(const Network& network);

/// `forward` as the model or the file has it. The batch of a .rir file is its own, whatever is asked for.
ir::Module original_module(const Network& network, std::int64_t batch);
/// The same after the plugins' rewrites.
ir::Module rewritten_module(const Network& network, std::int64_t batch);
/// The same in the precision that train.dtype and train.tf32 ask for.
ir::Module computed_module(const Network& network, std::int64_t batch);

/// The axes of one batch of images: 4 for the zoo's models, the argument's own for a .rir file.
int image_rank(const Network& network);

}  // namespace rewire::cli
