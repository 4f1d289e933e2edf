// Random small programs for differential tests: the same seed gives the same program and inputs always.
//
// A program is one function "main" of some twenty to two hundred ops with float results: transformer blocks,
// matmuls, norms and softmaxes in parts and whole, row and column reductions whose result meets its operand
// again, joins, gathers, slices, concatenations, transposes, broadcasts, draws, dropout, values used many
// times; extents are odd, 1, and multiples of nothing. So that a comparison in f32 means something, values
// stay moderate, divisors and roots keep clear of zero, and what jumps (floor, compare, argmax,
// sort) looks only at numbers that are exact in f32.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/tensor.h"

namespace rewire::testing {

struct RandomProgram {
  ir::Module module;  // verified; parameters, and state that "main" may update
  std::vector<ir::Tensor> inputs;
  ir::EvalState state;
};

struct ProgramOptions {
  int min_steps = 3, max_steps = 12;  // a step is one op up to a whole transformer block
  /// The results are a scalar "loss" and its gradient by each float input and parameter; nothing that jumps
  /// or bends sharply looks at computed values.
  bool gradients = false;
};

RandomProgram random_program(std::uint64_t seed, const ProgramOptions& options = {});

/// "main" with every intermediate value rounded to its dtype: what an f32 backend may be away from the
/// evaluator, as a measure of the program's conditioning.
std::vector<ir::Tensor> evaluate_rounded(const RandomProgram& program);

/// "", or the first element that is further off than `tolerance` times its tensor's largest magnitude. That
/// magnitude counts as no less than 1e-3 and a hundredth of the largest of all results: a gradient that is
/// zero but for rounding has no scale of its own. NaN equals NaN.
std::string first_difference(const std::vector<ir::Tensor>& expected, const std::vector<ir::Tensor>& actual,
                             double tolerance);

}  // namespace rewire::testing
