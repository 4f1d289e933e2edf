// Tuners and trials of tests on the fake libraries.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/exec/cuda/device_trial.h"
#include "runtime/exec/tune/tuner.h"

namespace rewire::runtime {

/// Asks `late_choices` alone, kept in `folder` ("": nothing is timed). A clock on which each look at it takes
/// a while; none: time never runs out.
inline TunerOptions timing_in(
    const std::string& folder,
    std::function<void(const ir::Module&, const std::vector<std::string>& functions, Tuner&)> late_choices,
    double seconds_a_look = 0) {
  TunerOptions options;
  options.cache_directory = folder;
  options.place = "here";
  auto time = std::make_shared<double>(0);
  options.clock = [time, seconds_a_look] { return *time += seconds_a_look; };
  options.late_choices = std::move(late_choices);
  return options;
}

inline Trial device_trial(const ir::Module& module, const ChoiceRecord& choices) {
  return make_device_trial(module, choices, {});
}

}  // namespace rewire::runtime
