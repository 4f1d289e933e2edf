// The weights of a module, as opposed to the rest of its state: ir::Parameter::is_weight().
// Files of weights are strict: each weight by its name and shape, and nothing else, but for what a WeightsFit allows.
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

/// The model's initialisation, then in their order the hooks of the plugins that are on in the epoch; `hooks`
/// takes what each of them wrote.
TensorMap fresh_weights(const ir::Module& module, const std::vector<PluginHandle>& plugins,
                        std::uint64_t seed, std::int64_t epoch = 0,
                        std::vector<Initialised>* hooks = nullptr);

/// From a safetensors file. Another floating dtype is converted; UserError naming the tensor, and both shapes
/// where they differ, when a weight is missing, unexpected or of another shape. Only those that `required`
/// has must be there, if it is given. What an objective remembers may be lacking, and is passed over where the module has
/// no place for it. Names are read as by weights_names.h. A refusal names what such weights are for (weights_hint.h).
struct WeightsFit {
  /// Of the file's tensors those whose names begin so are all, by the rest of their names.
  std::string prefix = "";
  const ir::Module* required = nullptr;
  /// How a position embedding of another square grid is resampled (position_grid.h), with a line in the log; refused
  /// where it is not.
  std::optional<models::PositionRule> positions = {};
  /// Whether the head starts fresh, whatever the file has of it; and, where the file lacks it, the norm between pooling
  /// and head, instead of which the file's `norm` is left out.
  bool new_head = false;
  /// Whether the file may have tensors that the module has not, as a decoder's: they are left out, with a line in the log.
  bool further = false;
  /// What the module is the network of, which the file's metadata are held against (check_origin); nullptr: they are not.
  const WeightsOrigin* origin = nullptr;
  bool other_strategy = false;
};
TensorMap read_weights(const ir::Module& module, const FilePlace& file, const WeightsFit& how = {});
/// The same of a file that has been read; `path` is for messages.
TensorMap fit_weights(const ir::Module& module, SafetensorsFile file, const std::string& path,
                      const WeightsFit& how = {});

/// Says which weights of the module are not among those that were read from `path` and stay fresh: how many
/// and the first of them as information, all of them for who looks for a fault.
void log_weights_left_fresh(const ir::Module& module, const TensorMap& given, const std::string& path);

/// Every parameter that is not among the given ones, as `initialise` has it.
TensorMap fresh_state(const ir::Module& module, const TensorMap& given, std::uint64_t seed);

/// A program's first state: the weights, the random seed, all other state by its Init.
TensorMap first_state(const ir::Module& module, const TensorMap& weights, std::uint64_t seed);
/// Gives it to an engine.
void start_state(Engine& engine, const ir::Module& module, const TensorMap& weights, std::uint64_t seed);

/// Gives the averages that `state` lacks, each as what it is the average of.
void begin_averages(const ir::Module& module, TensorMap& state);

/// The weights that an engine holds.
TensorMap weights_of(const Engine& engine, const ir::Module& module);
/// The averages of them, under the weights' names, and the weights that no average is kept of. None where no average
/// is kept.
TensorMap averages_of(const Engine& engine, const ir::Module& module);

}  // namespace rewire::runtime
