#include "runtime/train/step_pipeline.h"

#include <utility>

#include "programs/programs.h"
#include "runtime/train/run_clock.h"

namespace rewire::runtime {
namespace {

double scalar(const TensorMap& results, std::string_view name) {
  return static_cast<double>(results.find(name)->second.as<float>()[0]);
}

bool is_finite(const TensorMap& results) {
  return results.find("finite")->second.as<std::uint8_t>()[0] != 0;
}

}  // namespace

StepPipeline::StepPipeline(Engine& engine, RunPlan& plan, std::function<void(const StepResults&)> finished)
    : engine_(engine), plan_(plan), finished_(std::move(finished)) {}

void StepPipeline::open(const DataPosition& wanted) {
  if (loader_ == nullptr) loader_ = plan_.train_data.load(wanted);
  Batch passed_over;
  while (loader_->position() != wanted) loader_->next(passed_over);
}

void StepPipeline::submit(const Phase& phase, std::int64_t number, bool begins_phase) {
  const std::int64_t accumulate = plan_.recipe.train.accumulate;
  const std::string kind = accumulate == 1 ? "step" : "accumulate";
  for (std::int64_t micro = 0; micro < accumulate; ++micro) {
    Batch batch = next_batch();
    TensorMap inputs = take_inputs(plan_.programs.module.function(phase.program(kind)), batch);
    submit(phase, kind, std::move(inputs), accumulate == 1);
  }
  if (accumulate > 1) submit(phase, "apply", {}, true);
  for (const std::string& refresh :
       programs::refreshes_behind(number, begins_phase, plan_.programs.refresh_period))
    submit(phase, refresh, {}, false);
}

Batch StepPipeline::next_batch() {
  Batch batch;
  if (!spare_.empty()) {
    batch = std::move(spare_.back());
    spare_.pop_back();
  }
  const double asked = seconds_now();
  loader_->next(batch);
  data_wait_seconds_ += seconds_now() - asked;
  return batch;
}

void StepPipeline::submit(const Phase& phase, const std::string& kind, TensorMap inputs, bool ends_step) {
  const std::string program = phase.program(kind);
  const Engine::Ticket ticket = engine_.submit(program, inputs);
  pending_.push_back({ticket, &phase, program, std::move(inputs), ends_step});
  settle(kRunsAhead);
}

/// Reads results until at most `ahead` runs are under way, and the results of runs
/// that are already finished.
void StepPipeline::settle(std::size_t ahead) {
  while (!pending_.empty() && (pending_.size() > ahead || engine_.finished(pending_.front().ticket))) {
    Pending run = std::move(pending_.front());
    pending_.pop_front();
    read(std::move(run));
  }
}

void StepPipeline::read(Pending run) {
  const TensorMap results = engine_.results(run.ticket);
  if (!is_finite(results)) throw NonFiniteStep{std::move(run.program), std::move(run.inputs)};
  if (!run.inputs.empty()) {
    add_results(step_, run.phase->train_metrics, results);
    put_back(std::move(run.inputs), spare_.emplace_back());
  }
  if (run.ends_step)
    finished_({std::exchange(step_, {}), scalar(results, "lr"), scalar(results, "grad_norm")});
}

}  // namespace rewire::runtime
