// Maps the names in a file of weights to a module's. Wrappers put words before all names (PyTorch's data
// parallelism and compiler, trainers, self-distillation), and other code names some layers differently.
#pragma once

#include <string>

#include "ir/module.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

/// Renames the tensors to the module's names and logs a change:
/// 1. Each name is read as `P + rest`. P is a chain of the words module. _orig_mod. model. backbone.
///    student. teacher. or empty, and the same for all tensors. A name without P is read as it is.
/// 2. The rest is a name of the module, a name in the model's other public code (models::Family::name_here),
///    or such a name without a leading word of these that the module's own names have.
/// 3. The reading that finds the most weights of the module wins, the plain one on a tie.
/// `network`: as its model built it, with its options. Throws UserError with the prefixes if two readings
/// find equally many, as in a file with a student and its teacher.
void read_names(const ir::Module& module, const ir::Module& network, TensorMap& tensors,
                const std::string& path);

}  // namespace rewire::runtime
