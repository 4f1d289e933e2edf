// Random small programs for differential tests: a seed always gives the same program and inputs.
//
// A program is one function "main" of about twenty to two hundred ops with float results. It has transformer
// blocks, matmuls, norms and softmaxes in parts and whole, row and column reductions whose result is
// combined with their operand, joins, gathers, slices, concatenations, transposes, broadcasts, draws,
// dropout, and values used many times. Extents include 1, odd numbers and non-multiples of 16. To give a
// comparison in f32 a meaning, values stay moderate, divisors and roots keep clear of zero, and ops that
// jump (floor, compare, argmax, sort) read only numbers that are exact in f32.
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
  /// The results are a scalar "loss" and its gradient by each float input and parameter. No op that jumps or
  /// bends sharply reads a computed value.
  bool gradients = false;
};

RandomProgram random_program(std::uint64_t seed, const ProgramOptions& options = {});

/// Evaluates "main" with every intermediate value rounded to its dtype. The difference to the evaluator
/// measures the program's conditioning in f32.
std::vector<ir::Tensor> evaluate_rounded(const RandomProgram& program);

/// Returns "", or the first element that is off by more than `tolerance` times its tensor's largest
/// magnitude. That magnitude counts as at least 1e-3 and a hundredth of the largest of all results: a
/// gradient that is zero except for rounding has no scale of its own. NaN equals NaN.
std::string first_difference(const std::vector<ir::Tensor>& expected, const std::vector<ir::Tensor>& actual,
                             double tolerance);

}  // namespace rewire::testing
