// A program by the engine and by the evaluator, result by result.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/exec/engine.h"
#include "runtime/repro/case.h"

namespace rewire::runtime {

/// What a run leaves: its results, and as "NAME after the run" the parameters that it updates. `state`: of every
/// parameter.
TensorMap run_once(Engine& engine, const ir::Module& module, const std::string& name, const TensorMap& inputs,
                   const TensorMap& state);
/// The same by the evaluator.
TensorMap evaluated(const ir::Module& module, const std::string& function, const TensorMap& inputs,
                    const TensorMap& state);

/// Whether all elements of all of them are finite.
bool all_finite(const TensorMap& results);

/// By the names of what is expected; `allowed` is asked for a name and its error.
std::vector<ReproRow> rows_of(const TensorMap& actual, const TensorMap& expected,
                              const std::function<double(const std::string&, double)>& allowed);

/// Engine against evaluator, whose results are `expected`, with what rounding may cost (engine_check.h): more than the
/// fixed bound where values are narrow, or nearly cancel.
std::vector<ReproRow> compare_runs(const ir::Module& module, const std::string& function,
                                   const TensorMap& inputs, const TensorMap& state,
                                   const TensorMap& expected);

}  // namespace rewire::runtime
