// The network that a request asks for: MODEL (a recipe, a .rir file or a model's name) with settings and
// plugins over it. This is where recipes, models and plugins meet.
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
  /// "section.key=value" over the recipe; plugin specs instead of the recipe's; folders before the usual
  /// ones.
  std::vector<std::string> settings, plugins, plugin_path;
  /// Plugins that a file names by their paths are run, and remembered (runtime/plugin/trust_list.h).
  bool trust = false;
  /// It is a file, and not the command line, that MODEL and `plugins` are from.
  bool is_of_file = false;
  /// The run folder whose recipe MODEL is, or "". Its plugins are the libraries that it was made with
  /// (runtime/plugin/kept_plugins.h), unless `plugins` names others.
  std::string run = "";
  /// Files of weights may be of a network with other plugins (weights_origin.h).
  bool other_strategy = false;
};

struct Network {
  runtime::Recipe recipe;  // with every value of the model and the plugins filled in, and absolute paths
  std::optional<ir::Module> from_file;  // the module of a .rir file
  std::vector<runtime::PluginHandle> plugins;
  bool other_strategy = false;  // as the request has it
};

/// Reads the recipe or module and loads the plugins. UserError also for a rewrite that would be refused in
/// any later epoch.
Network resolve_network(const NetworkRequest& request);

/// What run programs are built from; it refers to the network, which must outlive it.
runtime::NetworkSource network_source(const Network& network);

/// What files of its weights say that they are of (weights_origin.h).
WeightsOrigin origin_of(const Network& network, std::int64_t epoch = 0);

/// `forward` as the model or the file has it. The batch of a .rir file is its own, whatever is asked for. `side`: of
/// images in pixels, the model's own where it is 0; the weights are the same ones. UserError where it takes no other size.
ir::Module original_module(const Network& network, std::int64_t batch, std::int64_t side = 0);
/// The network without what stands behind its features: of a module from a file, all of it.
ir::Module backbone_module(const Network& network, std::int64_t batch);
/// The functions that a training step of the recipe's objective calls, as computed_module() has forward.
ir::Module training_module(const Network& network, std::int64_t batch);
/// The same after the plugins' rewrites.
ir::Module rewritten_module(const Network& network, std::int64_t batch);
/// The same in the precision that train.dtype and train.tf32 ask for.
ir::Module computed_module(const Network& network, std::int64_t batch);

/// The axes of one batch of images: 4 for the models, the argument's own for a .rir file.
int image_rank(const Network& network);

}  // namespace rewire::runtime
