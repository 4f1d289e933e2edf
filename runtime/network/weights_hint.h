// Finds the option, key or model that fits a file of weights, for the message that refuses the file.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/module.h"
#include "models/model.h"

namespace rewire::runtime {

/// The shapes of a file's tensors, without PyTorch's counts of batches.
using WeightShapes = std::map<std::string, ir::Shape, std::less<>>;

/// Returns the zoo's model of the module, if its attributes give all options; else nullptr.
const models::Model* zoo_model_of(const ir::Module& module);

bool is_head(const ir::Parameter& parameter);
/// Returns true if train.new_head lets a file lack the parameter: the head, and the norm between pooling and
/// head (`fc_norm`).
bool starts_with_head(const ir::Module& module, const ir::Parameter& parameter);

/// Returns the file's norms before the pooling if the network has one after it instead; a new head leaves
/// them out.
std::vector<std::string> replaced_norms(const ir::Module& module, const WeightShapes& shapes);

/// Keys of [train] in force: whether they apply at all, new_head, and extra_weights=ignore.
struct TrainKeys {
  bool heeded = false, new_head = false, further = false;
};

/// Returns "; model.form=timm has its weights": the model options, the keys of [train] or the other model of
/// the zoo that fit such weights, or the code that they come from; "" if none is found.
std::string weights_hint(const ir::Module& module, const WeightShapes& shapes, const TrainKeys& keys);

/// Returns what names and shapes cannot show of weights that fit, such as the epsilon of CLIP's norms; "" if
/// nothing.
std::string untold_options(const ir::Module& module);

}  // namespace rewire::runtime
