#include "runtime/train/step_pipeline.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "programs/programs.h"
#include "runtime/group/agreement.h"
#include "runtime/train/run_clock.h"

namespace rewire::runtime {
namespace {

double scalar(const TensorMap& results, std::string_view name) {
  return static_cast<double>(results.find(name)->second.as<float>()[0]);
}

/// Programs that compute nothing new have no result `finite`.
bool is_finite(const TensorMap& results) {
  const auto finite = results.find("finite");
  return finite == results.end() || finite->second.as<std::uint8_t>()[0] != 0;
}

}  // namespace

StepPipeline::StepPipeline(Engine& engine, RunPlan& plan, Group& group,
                           std::function<void(const StepResults&)> finished)
    : engine_(engine), plan_(plan), group_(group), finished_(std::move(finished)) {
  if (plan.shares) shares_.emplace(engine, plan, group);
}

void StepPipeline::open(const DataPosition& wanted) {
  if (loader_ == nullptr && plan_.recipe.train.shard_count() > 1) {
    HostTensor first({ir::DType::i64, {}});
    first.as<std::int64_t>()[0] = plan_.rank * plan_.own_shards();
    engine_.write_state(programs::kShard, first);
  }
  const LoaderShare share = plan_.share();
  const DataPosition own = {wanted.epoch, wanted.batch + share.first,
                            wanted.sample + share.first * plan_.sizes.batch};
  if (loader_ == nullptr || loader_->position() != own) loader_ = plan_.train_data.load(wanted, share);
}

void StepPipeline::submit(const Phase& phase, std::int64_t number, bool begins_phase) {
  group_.size() > 1 ? submit_shared(phase) : submit_batches(phase);
  if (plan_.sizes.accumulate > 1) submit(phase, "apply", {}, true);
  for (const std::string& refresh :
       programs::refreshes_behind(number, begins_phase, plan_.programs.refresh_period))
    submit(phase, refresh, {}, false);
  if (shares_) shares_->send();
}

void StepPipeline::submit_batches(const Phase& phase) {
  const bool is_alone = plan_.sizes.accumulate == 1;
  const std::string kind = is_alone ? "step" : "accumulate";
  const std::int64_t shards = plan_.own_shards();
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    for (std::int64_t micro = 0; micro < plan_.recipe.train.accumulate; ++micro) {
      Batch batch = next_batch();
      TensorMap inputs = take_inputs(plan_.programs.module.function(phase.program(kind)), batch);
      submit(phase, kind, std::move(inputs), is_alone);
    }
    if (shards > 1) submit(phase, programs::fold_behind(shard), {}, false);
  }
}

/// Submits this rank's batches and adds the sums of all ranks. A rank that found a number that is not finite says so
/// before it ends: the others would wait for its sums.
void StepPipeline::submit_shared(const Phase& phase) {
  std::optional<NonFiniteStep> failed;
  try {
    drain();  // the update of the step before, which is the same on all ranks
    batches_.clear();
    submit_batches(phase);
    drain();
  } catch (NonFiniteStep& step) {
    failed = std::move(step);
  }
  const std::vector<char> all = gathered(group_, char{failed.has_value()});
  if (const auto first = std::ranges::find(all, char{true}); first != all.end()) {
    const auto rank = static_cast<int>(first - all.begin());
    throw NonFiniteStep{failed ? failed->program : "", failed ? std::move(failed->inputs) : TensorMap{},
                        rank};
  }
  gather_metrics(phase.train_metrics);
  std::unique_ptr<StateSums>& sums = sums_[&phase];
  if (sums == nullptr) {
    const ir::Module& module = plan_.programs.module;
    sums = make_shard_sums(engine_, module, module.function(phase.program("accumulate")), group_);
  }
  sums->add();
}

/// Adds the metrics of all batches of the step, in the order of batches.
void StepPipeline::gather_metrics(const programs::Metrics& metrics) {
  std::vector<MetricSum> own;
  for (const MetricSums& batch : batches_) {
    for (const programs::Metric& metric : metrics) own.push_back(batch.at(metric.name));
  }
  const std::vector<MetricSum> all = gathered(group_, std::span<const MetricSum>(own));
  for (std::size_t i = 0; i < all.size(); ++i) add_sums(step_, {{metrics[i % metrics.size()].name, all[i]}});
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
    add_results(group_.size() > 1 ? batches_.emplace_back() : step_, run.phase->train_metrics, results);
    put_back(std::move(run.inputs), spare_.emplace_back());
  }
  if (run.ends_step)
    finished_({std::exchange(step_, {}), scalar(results, "lr"), scalar(results, "grad_norm")});
}

}  // namespace rewire::runtime
