// The best evaluation of a run, by the metric that the recipe names.
#pragma once

#include <optional>

#include "runtime/run/checkpoint.h"
#include "runtime/train/run_plan.h"

namespace rewire::runtime {

/// Forgets the best evaluation, with a warning that names the folder `run`, if later ones cannot be compared with it:
/// they have another metric, other test data or other competing classes. Updates what `progress` says of these.
void keep_comparable_best(RunProgress& progress, const RunPlan& plan, const std::string& run);

/// Compares an evaluation at the end of an epoch with the best so far. If it is better, it becomes the best and the
/// result is true; else the best has waited for one more. An evaluation that is not a number never is better.
bool compare_with_best(RunProgress& progress, const RunPlan& plan, const Evaluation& evaluation);

/// Returns true if as many evaluations in a row were not better as train.patience says.
bool out_of_patience(const RunProgress& progress, const RunPlan& plan);

}  // namespace rewire::runtime
