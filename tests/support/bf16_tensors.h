// Arguments whose elements are all exact in bf16, so that rounding them changes nothing.
#pragma once

#include <random>
#include <vector>

#include "ir/module.h"
#include "ir/tensor.h"

namespace rewire::testing {

/// Returns one tensor per argument, standard normal, rounded to bf16.
inline std::vector<ir::Tensor> bf16_arguments(const ir::Function& function, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<ir::Tensor> tensors;
  for (const ir::Argument& argument : function.arguments) {
    ir::Tensor tensor(function.type(argument.value));
    for (double& x : tensor.data) x = ir::round_to(ir::DType::bf16, normal(random));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace rewire::testing
