// Results of `forward` beside its logits: what a training step is asked to do with a value of the forward
// pass. `forward` itself stays a function without effects; programs/programs.h makes of them
//
//   report.<name>        float scalar    a number for the metrics, named after join and plugin
//   loss.<name>          float scalar    a term that is added to the loss
//   update.<weight>      the weight's    the next value of a weight that does not train
//   after_step.<weight>  the weight's    the weight's value behind the optimizer's update, as a function of
//                                        the value that the optimizer gave it
//
// Beside them `forward` may read the share of training that is done, kProgress f32[], which the step program
// knows exactly and keeps up with each update, so that it is saved with the weights and evaluation reads it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"

namespace rewire::ir {

inline constexpr std::string_view kReportPrefix = "report.";
inline constexpr std::string_view kLossPrefix = "loss.";
inline constexpr std::string_view kUpdatePrefix = "update.";
inline constexpr std::string_view kAfterStepPrefix = "after_step.";

inline constexpr std::string_view kProgress = "train.progress", kProgressRole = "progress";

/// The results whose names begin with `prefix`, in order, by the rest of their names.
inline std::vector<Argument> side_results(const Function& forward, std::string_view prefix) {
  std::vector<Argument> found;
  for (const Argument& result : forward.results) {
    if (result.name.starts_with(prefix)) found.push_back({result.name.substr(prefix.size()), result.value});
  }
  return found;
}

}  // namespace rewire::ir
