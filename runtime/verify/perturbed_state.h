// Where a program is checked: weights and inputs of no pattern, drawn from a seed, so that no zero or
// symmetry of a fresh network hides an error.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/tensor.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

/// `count` normal numbers of one Philox stream.
std::vector<double> normal_numbers(std::uint64_t seed, const std::string& stream, std::size_t count);

/// Every parameter of the module: as given, else as initialise() has it; normal noise of deviation 0.02 is
/// added to those that train; averages are as what they are of.
std::map<std::string, ir::Tensor, std::less<>> perturbed_state(const ir::Module& module,
                                                               const TensorMap& given, std::uint64_t seed);

/// The same as an engine takes it.
TensorMap perturbed_tensors(const ir::Module& module, const TensorMap& given, std::uint64_t seed);

/// An argument of a program: uniform over its categories (programs::categories), all else normal.
ir::Tensor random_argument(const ir::Module& module, const ir::Function& program,
                           const ir::Argument& argument, std::uint64_t seed);
/// All of them, as an engine takes them.
TensorMap random_arguments(const ir::Module& module, const ir::Function& program, std::uint64_t seed);

}  // namespace rewire::runtime
