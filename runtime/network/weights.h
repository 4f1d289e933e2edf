// The weights of a module, as opposed to the rest of its state: ir::Parameter::is_weight(). A file of
// weights must have exactly these names and shapes, except for what WeightsFit allows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/exec/engine.h"
#include "runtime/io/host_tensor.h"
#include "runtime/io/safetensors.h"
#include "runtime/network/position_grid.h"
#include "runtime/network/weights_origin.h"
#include "runtime/plugin/plugin.h"

namespace rewire::runtime {

/// Returns the model's initialisation, changed by the hooks of the plugins that are on in the epoch, in
/// their order. `hooks` receives what each of them wrote.
TensorMap fresh_weights(const ir::Module& module, const std::vector<PluginHandle>& plugins,
                        std::uint64_t seed, std::int64_t epoch = 0,
                        std::vector<Initialised>* hooks = nullptr);

/// Allowed differences between a file of weights and the module.
struct WeightsFit {
  /// Reads only tensors whose names begin with this, by the rest of their names.
  std::string prefix = "";
  /// If given, only its weights must be in the file.
  const ir::Module* required = nullptr;
  /// The rule to resample a position embedding of another square grid (position_grid.h), which is logged;
  /// nothing: it is refused.
  std::optional<models::PositionRule> positions = {};
  /// Starts the head fresh, whatever the file has. If the file also lacks the norm between pooling and head,
  /// that norm starts fresh and the file's `norm` is left out.
  bool new_head = false;
  /// Leaves out tensors that the module lacks, such as a decoder's, and logs it, instead of refusing them.
  bool further = false;
  /// The network of the module, to be compared with the file's metadata (check_origin); nullptr: not
  /// compared.
  const WeightsOrigin* origin = nullptr;
  bool other_strategy = false;
};
/// Reads a safetensors file, its names as in weights_names.h, and converts another floating dtype.
/// Statistics that an objective remembers may be missing, and are skipped if the module has none. Throws
/// UserError with the tensor, and both shapes if they differ, if a weight is missing, unexpected or of
/// another shape; the message says what such weights are for (weights_hint.h).
TensorMap read_weights(const ir::Module& module, const FilePlace& file, const WeightsFit& how = {});
/// Returns the weights from a file that has been read; `path` is for messages.
TensorMap fit_weights(const ir::Module& module, SafetensorsFile file, const std::string& path,
                      const WeightsFit& how = {});

/// Logs which weights of the module were not read from `path` and stay fresh: their number and the first
/// names as information, all names for debugging.
void log_weights_left_fresh(const ir::Module& module, const TensorMap& given, const std::string& path);

/// Returns the state of each parameter that is not in `given`, by initialise().
TensorMap fresh_state(const ir::Module& module, const TensorMap& given, std::uint64_t seed);

/// Returns a program's first state: the weights, the random seed, and all other state by its Init.
TensorMap first_state(const ir::Module& module, const TensorMap& weights, std::uint64_t seed);
/// Writes first_state() to an engine.
void start_state(Engine& engine, const ir::Module& module, const TensorMap& weights, std::uint64_t seed);

/// Adds each average that `state` lacks as a copy of its weight.
void begin_averages(const ir::Module& module, TensorMap& state);

/// Returns the weights that an engine holds.
TensorMap weights_of(const Engine& engine, const ir::Module& module);
/// Returns their averages under the weights' names, and the weights without an average. Returns nothing if
/// no averages are kept.
TensorMap averages_of(const Engine& engine, const ir::Module& module);

}  // namespace rewire::runtime
