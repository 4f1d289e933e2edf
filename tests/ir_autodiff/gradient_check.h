// Gradients of a function of the IR in two ways: differentiate() and central differences on the evaluator.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/evaluate.h"
#include "ir/module.h"

namespace rewire::ir::testing {

/// dL/d argument at the elements that were compared. L is the sum over the function's float results of
/// <probe, result>, with a random probe for each, so that every element of every result weighs.
struct ArgumentGradient {
  std::size_t index = 0;  // of Function::arguments
  std::string argument;
  std::vector<double> exact;
  std::vector<double> difference;

  /// |exact - difference| / |difference| in the 2-norm; below a norm of 1e-3, where differences are mostly
  /// rounding, relative to 1e-3.
  double relative_error() const;
};

/// One entry a float argument. At most `max_elements` of each, chosen by `seed`, are differenced. The modules
/// built on the way are verified.
std::vector<ArgumentGradient> compare_gradients(const Module& module, std::string_view function_name,
                                                const std::vector<Tensor>& arguments, const EvalState& state,
                                                std::uint64_t seed, std::size_t max_elements = 4096);

/// `function` with L as above and a result "grad.NAME" for each float argument; the old results are dropped.
void append_probed_gradients(Module& module, Function& function, std::uint64_t seed);

}  // namespace rewire::ir::testing
