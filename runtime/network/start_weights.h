// The weights that a new run takes from a file, by the keys of [train] (docs/guide/train.md, Fine-tuning).
#pragma once

#include "ir/module.h"
#include "runtime/io/host_tensor.h"
#include "runtime/network/weights_origin.h"
#include "runtime/recipe/recipe.h"

namespace rewire::runtime {

/// Returns the tensors of train.weights that `module` has, none if it is "". `original`: the network before
/// plugins; the file must have all its weights except those that the recipe lets start fresh. Throws
/// UserError with the key or the tensor.
TensorMap read_start_weights(const Recipe& recipe, const ir::Module& module, const ir::Module& original,
                             const WeightsOrigin& origin);

}  // namespace rewire::runtime
