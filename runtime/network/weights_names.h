// What the names in a file of weights mean to a module. Wrappers put words in front of all names (PyTorch's data
// parallelism and compiler, trainers, self-distillation), and other code has other names for some layers.
#pragma once

#include <string>

#include "ir/module.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

/// Gives the tensors the module's names, with a line in the log where that changes one:
/// 1. Each name is read as `P + rest`, P a chain of the words module. _orig_mod. model. backbone. student. teacher. or
///    nothing, the same P for all tensors; what does not begin with P is read as it is.
/// 2. The rest is a name of the module, one that the model's other public code has for it (models::Family::name_here), or
///    such a name without one of these words that the module's own names begin with.
/// 3. The reading that finds the most of the module's weights holds; the plain one where none finds more.
/// `network`: as its model built it, with its options. UserError naming the prefixes where two readings find as many, as in
/// a file with a student and its teacher.
void read_names(const ir::Module& module, const ir::Module& network, TensorMap& tensors,
                const std::string& path);

}  // namespace rewire::runtime
