// Other public code's ways to store a network's weights: models::FileForms.
#pragma once

#include <string>

#include "ir/module.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

/// Transposes matrices that the file stores as [inputs, outputs] and shortens tables of positions, which is
/// logged, drops constants, and drops copies of a weight. Does nothing if `network` is no model of the zoo.
/// Throws UserError if a copy differs from its weight.
void take_forms(const ir::Module& network, TensorMap& tensors, const std::string& path);

}  // namespace rewire::runtime
