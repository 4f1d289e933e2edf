// Random cases of every op of the table. They drive the evaluator's tests, the check of VJPs against
// differences and the check of every backend against the evaluator.
//
// Shapes have rank 1 to 4 and irregular extents, including 1 and non-multiples of 16; element counts stay in
// the low thousands. Inputs keep clear of poles, domain borders and, if they are differentiable, of kinks
// and ties. Every input is exact in its dtype, so a backend reads the same numbers as the evaluator.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/module.h"
#include "ir/tensor.h"

namespace rewire::testing {

struct OpCase {
  /// Function "main" applies the op to its arguments a0, a1, …; its results are named r0, r1, ….
  ir::Module module;
  std::vector<ir::Tensor> inputs;
  /// By input: true if the results have a derivative by it at these values (zero counts).
  std::vector<bool> differentiable;
  /// State for param, update and is_training; empty for all other ops.
  ir::EvalState state;
};

bool has_op_case(ir::Opcode code);

/// Returns the same case for the same (code, seed). Throws InternalError for an op without a generator.
OpCase random_op_case(ir::Opcode code, std::uint64_t seed);

}  // namespace rewire::testing
