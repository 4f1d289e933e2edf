#include "runtime/train/run_diagnosis.h"

#include <algorithm>

#include "programs/diagnose.h"
#include "programs/diagnose_blocks.h"
#include "runtime/measure/diagnose.h"
#include "runtime/network/data_feed.h"
#include "runtime/network/weights.h"

namespace rewire::runtime {

Batch first_test_images(const Recipe& recipe, const NetworkFace& face, std::int64_t images) {
  Recipe one_batch = recipe;
  one_batch.eval.batch = images;
  one_batch.data.prefetch = 1;
  const DataFeed data(one_batch, Split::test, face);
  Batch batch;
  data.load()->next(batch);
  return batch;
}

RunDiagnosis::RunDiagnosis(const TrainRequest& request, const RunPlan& plan)
    : request_(request),
      plan_(plan),
      images_(first_test_images(plan.recipe, plan.face, plan.diagnosed_images)) {}

MetricValues RunDiagnosis::measure(Engine& engine, const Phase& phase, bool whole) {
  MetricValues values;
  const ir::Function* program = plan_.programs.module.find_function(phase.program("diagnose"));
  if (program != nullptr) {
    DiagnoseMeans means(*program);
    means.add(engine.run(program->name, first_rows_of(*program, images_.tensors)));
    values = means.values();
  }
  if (std::ranges::find(plan_.diagnostics, programs::kConditioning) != plan_.diagnostics.end()) {
    for (MetricValue& value : conditioning(engine, phase)) values.push_back(std::move(value));
  }
  if (whole) {
    const ir::Module module = rewritten_forward(request_.network, 1, phase.first_epoch);
    values.push_back({"gamma", programs::width_over_depth(module.function("forward"))});
  }
  return values;
}

MetricValues RunDiagnosis::conditioning(const Engine& engine, const Phase& phase) {
  const std::int64_t images = std::min(plan_.diagnosed_images, kConditionedImages);
  std::unique_ptr<ConditioningMeter>& meter = meters_[phase.first_epoch];
  const ir::Module module = rewritten_forward(request_.network, images, phase.first_epoch);
  if (meter == nullptr) {
    meter = std::make_unique<ConditioningMeter>(
        module, ConditioningOptions{.seed = request_.network.seed, .largest_jacobian = kLargestJacobian});
  }
  return conditioning_values(meter->measure(weights_of(engine, plan_.programs.module),
                                            first_rows_of(module.function("forward"), images_.tensors)));
}

}  // namespace rewire::runtime
