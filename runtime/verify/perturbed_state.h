// The point for checks of a program: weights and inputs drawn from a seed, so that no zero or symmetry of a
// fresh network hides an error.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/tensor.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

/// Returns `count` normal numbers of one Philox stream.
std::vector<double> normal_numbers(std::uint64_t seed, const std::string& stream, std::size_t count);

/// Returns all parameters: as given, else by initialise(). Normal noise of deviation 0.02 is added to those
/// that train; averages equal their weights.
std::map<std::string, ir::Tensor, std::less<>> perturbed_state(const ir::Module& module,
                                                               const TensorMap& given, std::uint64_t seed);

/// Returns the state for an engine.
TensorMap perturbed_tensors(const ir::Module& module, const TensorMap& given, std::uint64_t seed);

/// Returns an argument of a program: uniform over its categories (programs::categories), else normal.
ir::Tensor random_argument(const ir::Module& module, const ir::Function& program,
                           const ir::Argument& argument, std::uint64_t seed);
/// Returns all arguments for an engine.
TensorMap random_arguments(const ir::Module& module, const ir::Function& program, std::uint64_t seed);

}  // namespace rewire::runtime
