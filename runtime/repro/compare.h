// Compares a program's results on the engine and on the evaluator, one by one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/exec/engine.h"
#include "runtime/repro/case.h"

namespace rewire::runtime {

/// Returns the results of a run, and the parameters that it updates as "NAME after the run". `state`: of
/// every parameter.
TensorMap run_once(Engine& engine, const ir::Module& module, const std::string& name, const TensorMap& inputs,
                   const TensorMap& state);
/// Returns the same tensors from the evaluator.
TensorMap evaluated(const ir::Module& module, const std::string& function, const TensorMap& inputs,
                    const TensorMap& state);

/// Returns true if all elements of all tensors are finite.
bool all_finite(const TensorMap& results);

/// Returns a row for each expected name; `allowed` gets a name and its error.
std::vector<ReproRow> rows_of(const TensorMap& actual, const TensorMap& expected,
                              const std::function<double(const std::string&, double)>& allowed);

/// Compares the engine with `expected`, the evaluator's results. The bounds allow for rounding
/// (engine_check.h): more than the fixed bound if values are narrow, or nearly cancel.
std::vector<ReproRow> compare_runs(const ir::Module& module, const std::string& function,
                                   const TensorMap& inputs, const TensorMap& state,
                                   const TensorMap& expected);

}  // namespace rewire::runtime
