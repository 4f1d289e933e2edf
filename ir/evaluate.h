// The oracle: a naive double-precision interpreter of the IR, one op at a time, never optimised.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/tensor.h"

namespace rewire::ir {

/// Runs `function` on `arguments` (in the order of Function::arguments; UserError on a wrong count or type).
/// `update` ops write `state` when all reads are done, in body order. Returns the results in the order of
/// Function::results.
std::vector<Tensor> evaluate(const Module& module, const Function& function,
                             const std::vector<Tensor>& arguments, EvalState& state);

/// Shows each op's results to `visit` in the order of the body, until it says false. No update is applied and
/// a value is freed after its last use: for naming the first tensor of some kind.
void evaluate_until(const Function& function, const std::vector<Tensor>& arguments, EvalState& state,
                    const std::function<bool(const Op&, Value, const Tensor&)>& visit);

}  // namespace rewire::ir
