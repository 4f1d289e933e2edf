// Which option, key or model a file of weights is for that does not fit a module: what a refusal names.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/module.h"
#include "models/model.h"

namespace rewire::runtime {

/// A file's tensors, but for PyTorch's counts of batches.
using WeightShapes = std::map<std::string, ir::Shape, std::less<>>;

/// The model of the zoo that the module is, with all its options as attributes; nullptr: it is none.
const models::Model* zoo_model_of(const ir::Module& module);

bool is_head(const ir::Parameter& parameter);
/// Whether train.new_head lets a file lack it: the head, and what stands between the pooling and the head (`fc_norm`).
bool starts_with_head(const ir::Module& module, const ir::Parameter& parameter);

/// The norm before the pooling that a file has, of a network that has one behind it instead: a new head leaves it out.
std::vector<std::string> replaced_norms(const ir::Module& module, const WeightShapes& shapes);

/// What the keys of [train] say already: whether they are heeded at all, new_head, and extra_weights=ignore.
struct TrainKeys {
  bool heeded = false, new_head = false, further = false;
};

/// "; model.form=timm has its weights": the choice of the model's options, the keys of [train] or the other model of the
/// zoo that such weights are for, or whose code they are of; "" where none is found.
std::string weights_hint(const ir::Module& module, const WeightShapes& shapes, const TrainKeys& keys);

/// "": or what names and shapes do not tell of weights that fit, as the epsilon of CLIP's norms.
std::string untold_options(const ir::Module& module);

}  // namespace rewire::runtime
