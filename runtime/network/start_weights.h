// The weights that a new run takes from a file, as the keys of [train] say (docs/guide/train.md, Fine-tuning).
#pragma once

#include "ir/module.h"
#include "runtime/io/host_tensor.h"
#include "runtime/network/weights_origin.h"
#include "runtime/recipe/recipe.h"

namespace rewire::runtime {

/// Those of train.weights that `module` has, none where it is "". `original`: the network before plugins, all of whose
/// weights must be there but for what the recipe lets start fresh. UserError naming the key or the tensor.
TensorMap read_start_weights(const Recipe& recipe, const ir::Module& module, const ir::Module& original,
                             const WeightsOrigin& origin);

}  // namespace rewire::runtime
