// The oracle: a naive double-precision interpreter of the IR, one op at a time, never optimised.
#pragma once

#include <map>
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

/// As above, and every intermediate value by Value::id: for tests, and for naming the first non-finite
/// tensor.
std::vector<Tensor> evaluate_all(const Module& module, const Function& function,
                                 const std::vector<Tensor>& arguments, EvalState& state);

}  // namespace rewire::ir
