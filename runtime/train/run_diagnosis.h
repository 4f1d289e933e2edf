// The diagnose lines of a run ([diagnose]): the results of programs/diagnose.h and, if asked for, the
// conditioning, of an engine's state and always on the same test images.
#pragma once

#include <map>
#include <memory>

#include "runtime/exec/engine.h"
#include "runtime/measure/conditioning.h"
#include "runtime/measure/metrics.h"
#include "runtime/train/run_plan.h"

namespace rewire::runtime {

/// Returns the first test images, as one batch of the objective's inputs.
Batch first_test_images(const Recipe& recipe, const NetworkFace& face, std::int64_t images);

class RunDiagnosis {
 public:
  /// Reads the images. The arguments must outlive it.
  RunDiagnosis(const TrainRequest& request, const RunPlan& plan);

  /// Measures the state. `whole`: including what never changes, gamma = width / depth.
  MetricValues measure(Engine& engine, const Phase& phase, bool whole);

 private:
  MetricValues conditioning(const Engine& engine, const Phase& phase);

  const TrainRequest& request_;
  const RunPlan& plan_;
  const Batch images_;
  std::map<std::int64_t, std::unique_ptr<ConditioningMeter>> meters_;  // by the first epoch of their phase
};

}  // namespace rewire::runtime
