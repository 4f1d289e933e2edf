// What f32 may cost a program, measured: its ops computed in double precision with random errors of the size
// of a rounding (Monte Carlo arithmetic: Parker, 1997). Where terms of opposite sign nearly cancel, the
// result's scatter over a few such runs says how much of it rounding leaves.
//
// With e a new uniform draw from [-1, 1] for each element, and u one unit in the last place at 1:
// - a sum of products (sum, matmul, …):  y + u e sum |terms|
// - a pointwise op:                      y (1 + u e)
// - any other op that rounds:            f(x (1 + u e), …) (1 + u e)
// An op that computes exactly (tolerance 0 in the op table) and a random draw have no error, a cast has that
// of its result.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/module.h"
#include "ir/ops/op_info.h"

namespace rewire::ir {

/// Runs op_info(op).evaluate with such errors. The draws are a function of `seed`, `position` (of the op in
/// its function) and the element.
void evaluate_with_noise(EvalContext& context, std::uint64_t seed, std::size_t position);

}  // namespace rewire::ir
