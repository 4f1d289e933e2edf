// Results of `forward` beside its logits. They ask a training step to use a value of the forward pass.
// `forward` itself stays a function without effects; programs/programs.h gives the results their meaning:
//
//   report.<name>        float scalar    a number for the metrics, named after join and plugin
//   loss.<name>          float scalar    a term that is added to the loss
//   update.<weight>      the weight's    the next value of a weight that does not train
//   after_step.<weight>  the weight's    the weight's value after the optimizer's update, as a function of
//                                        the optimizer's value
//
// `forward` may also read kProgress f32[], the share of training that is done. The step program knows it
// exactly and updates it with the weights, so it is saved with them and evaluation reads it.
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

/// Returns the results whose names begin with `prefix`, in order, with the rest of their names.
inline std::vector<Argument> side_results(const Function& forward, std::string_view prefix) {
  std::vector<Argument> found;
  for (const Argument& result : forward.results) {
    if (result.name.starts_with(prefix)) found.push_back({result.name.substr(prefix.size()), result.value});
  }
  return found;
}

}  // namespace rewire::ir
