// The reference evaluator: a naive double-precision interpreter of the IR, one op at a time, never
// optimised.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/tensor.h"

namespace rewire::ir {

/// Runs `function` on `arguments`, which are in the order of Function::arguments, and returns the results in
/// the order of Function::results. `update` ops write `state` after all reads, in body order. Throws
/// UserError if an argument's count or type is wrong.
std::vector<Tensor> evaluate(const Module& module, const Function& function,
                             const std::vector<Tensor>& arguments, EvalState& state);

/// Passes each op's results to `visit` in body order until it returns false. Applies no update, and frees a
/// value after its last use. It serves to find the first tensor of some kind.
void evaluate_until(const Function& function, const std::vector<Tensor>& arguments, EvalState& state,
                    const std::function<bool(const Op&, Value, const Tensor&)>& visit);

}  // namespace rewire::ir
