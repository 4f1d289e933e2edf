// Measures the effect of f32 rounding on a program: ops are computed in double precision with random errors
// of the size of a rounding (Monte Carlo arithmetic: Parker, 1997). Where terms of opposite sign nearly
// cancel, the scatter of the result over a few such runs shows how much of it rounding preserves.
//
// With e a new uniform draw from [-1, 1] for each element, and u one unit in the last place at 1:
// - a sum of products (sum, matmul, …):  y + u e sum |terms|
// - a pointwise op:                      y (1 + u e)
// - any other op that rounds:            f(x (1 + u e), …) (1 + u e) Ops that compute exactly (tolerance 0
//   in the op table) and random draws have no error. A cast has the error of its result.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/module.h"
#include "ir/ops/op_info.h"

namespace rewire::ir {

/// Runs op_info(op).evaluate with such errors. The draws are a function of `seed`, `position` (the op's
/// place in its function) and the element.
void evaluate_with_noise(EvalContext& context, std::uint64_t seed, std::size_t position);

}  // namespace rewire::ir
