// The loop over steps and epochs; see run_loop.h.
#include "runtime/train/run_loop.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "codegen/files/digest.h"
#include "ir/error.h"
#include "runtime/device/log.h"
#include "runtime/device/process.h"
#include "runtime/exec/make_engine.h"
#include "runtime/group/agreement.h"
#include "runtime/io/safetensors.h"
#include "runtime/network/initialise.h"
#include "runtime/network/weights.h"
#include "runtime/train/best_evaluation.h"
#include "runtime/train/run_checkpoints.h"
#include "runtime/train/run_clock.h"
#include "runtime/train/run_diagnosis.h"
#include "runtime/train/run_evaluations.h"
#include "runtime/train/run_records.h"
#include "runtime/train/step_pipeline.h"
#include "runtime/train/weight_shares.h"

namespace rewire::runtime {
namespace {

void add(TrainSums& sums, const StepResults& step) {
  ++sums.steps;
  sums.grad_norm += step.grad_norm;
  add_sums(sums.metrics, step.metrics);
}

/// What rank 0 writes of a run.
struct RunOutput {
  RunOutput(const TrainRequest& request, const RunPlan& plan, RunFolder& where, Engine& engine,
            RunProgress& progress, std::function<void()> checkpointed)
      : folder(where),
        records(request, plan, where, engine, progress),
        checkpoints(request, plan, where, engine, records, progress, std::move(checkpointed)) {}

  RunFolder& folder;
  RunRecords records;
  RunCheckpoints checkpoints;
};

/// Resets the optimizer's moments to those of a network that has not trained.
void reset_moments(Engine& engine, const RunPlan& plan, std::uint64_t seed) {
  ir::Module memory;
  for (const ir::Parameter& parameter : plan.programs.module.parameters) {
    if (parameter.kind == ir::StateKind::moment) memory.parameters.push_back(parameter);
  }
  write_own_states(engine, plan, initialise(memory, seed));
}

}  // namespace

class RunLoop::Run {
 public:
  Run(const TrainRequest& request, RunPlan& plan, const std::string& path, RunFolder* folder,
      TrainObserver& observer, std::unique_ptr<Engine> engine, Checkpoint&& start,
      std::function<void()> checkpointed)
      : request_(request),
        plan_(plan),
        recipe_(request.recipe),
        path_(path),
        observer_(observer),
        engine_(std::move(engine)),
        progress_(start.progress),
        evaluations_(request, plan, folder, *engine_, observer, start.progress.position.epoch),
        pipeline_(*engine_, plan, *request.group, [this](const StepResults& step) { finish_step(step); }) {
    if (folder != nullptr) {
      output_.emplace(request, plan, *folder, *engine_, progress_, std::move(checkpointed));
      if (plan.diagnosed_images != 0) diagnosis_ = std::make_unique<RunDiagnosis>(request, plan);
    }
    progress_.sizes = plan.sizes;
    progress_.data = plan.data;
    clock_.line_began = progress_.position.step;
    write_own_states(*engine_, plan, start.state);
    keep_comparable_best(progress_, plan, path);
  }

  TrainResult finish() {
    begin_with_other_data();
    observer_.started(facts());
    if (progress_.position.step > 0)
      persist([](RunOutput& to) { to.checkpoints.name(); });  // a crash may have prevented it
    int signal = train();
    if (signal == 0 && !evaluation_) {  // the run was complete before
      evaluation_ = evaluate();
      if (!evaluation_) signal = request_.agreed_stop();
    }
    if (signal == 0) persist([&](RunOutput& to) { write_final_weights(to); });
    if (signal == 0 || progress_.position.step > 0)
      persist([&](RunOutput& to) { to.records.end(signal == 0); });
    return result(signal);
  }

  bool shares_devices() const { return plan_.ranks > 1 && request_.engine == kCudaEngine; }

 private:
  /// Returns 0, or the signal that stopped it.
  int train() {
    try {
      return train_epochs();
    } catch (const NonFiniteStep& step) {
      fail_step(step, plan_, *engine_, output_ ? &output_->folder : nullptr,
                output_ ? &output_->checkpoints : nullptr, observer_, progress_.position, *request_.group,
                states_elsewhere());
    }
  }

  /// Rank 0 writes, and another rank does nothing.
  template <class Write>
  void persist(Write write) {
    if (output_) output_->checkpoints.persist([&] { write(*output_); });
  }

  void save() {
    require_same_weights();
    TensorMap elsewhere = states_elsewhere();
    if (output_) output_->checkpoints.save(std::move(elsewhere));
  }

  /// On rank 0, returns the states that other ranks alone have.
  TensorMap states_elsewhere() { return plan_.shares ? pipeline_.collect() : TensorMap{}; }

  /// Throws UserError if the ranks have gone apart, as on processors that round otherwise.
  void require_same_weights() {
    if (plan_.ranks == 1) return;
    codegen::Digest weights;
    for (const auto& [name, tensor] : weights_of(*engine_, plan_.programs.module))
      weights.update(tensor.bytes());
    require_same(*request_.group,
                 {{fmt::format("set of weights after step {}", progress_.position.step), weights.hex()}});
  }

  void write_final_weights(RunOutput& to) {
    const ir::Module& module = plan_.programs.module;
    const auto& metadata = to.checkpoints.metadata();
    write_safetensors(to.folder.place(kFinalWeights), weights_of(*engine_, module), metadata);
    if (plan_.keeps_averages())
      write_safetensors(to.folder.place(kFinalAverages), averages_of(*engine_, module), metadata);
  }

  TrainResult result(int signal) const {
    TrainResult result;
    result.run = path_;
    result.position = progress_.position;
    result.stopped_by = signal;
    if (signal == 0) result.evaluation = evaluation_;
    result.train_loss = progress_.epoch.steps > 0 ? train_means(progress_.epoch.metrics).at(0).value
                                                  : progress_.last_epoch_loss;
    result.train_seconds = progress_.train_seconds;
    if (progress_.train_seconds > 0)
      result.samples_per_second = static_cast<double>(progress_.samples) / progress_.train_seconds;
    result.data_wait_seconds = pipeline_.data_wait_seconds();
    result.new_train_seconds = progress_.train_seconds - began_with_;
    result.unreadable_samples =
        distinct(plan_.train_data.unreadable_samples()) + distinct(plan_.test_data.unreadable_samples());
    for (const std::int64_t memory : gathered(*request_.group, peak_memory_bytes()))
      result.peak_memory_bytes = std::max(result.peak_memory_bytes, memory);
    return result;
  }

  /// Returns how many different numbers the ranks have.
  std::int64_t distinct(std::vector<std::int64_t> numbers) const {
    const std::vector<std::size_t> sizes = gathered(*request_.group, numbers.size());
    numbers.resize(*std::ranges::max_element(sizes), -1);
    const std::vector<std::int64_t> all = gathered(*request_.group, std::span<const std::int64_t>(numbers));
    std::set<std::int64_t> different(all.begin(), all.end());
    different.erase(-1);
    return std::ssize(different);
  }

  /// Returns the means of the metrics that the run's current phase has.
  MetricValues train_means(const MetricSums& sums) const {
    return means(sums, plan_.programs.phase_of(last_epoch(progress_.position)).train_metrics);
  }

  RunFacts facts() const {
    RunFacts facts;
    facts.run = path_;
    facts.position = progress_.position;
    for (const ir::Parameter& parameter : plan_.programs.module.parameters)
      facts.weights += parameter.trainable ? parameter.type.elements() : 0;
    facts.train_samples = plan_.train_data.count();
    facts.test_samples = plan_.test_data.count();
    facts.epochs = recipe_.train.epochs;
    facts.steps = plan_.course.total_steps();
    facts.steps_per_epoch = plan_.course.steps_per_epoch();
    facts.dropped = plan_.course.dropped(recipe_.train.epochs);
    return facts;
  }

  /// Returns 0, or the signal that stopped it after a checkpoint.
  int train_epochs() {
    TrainPosition& at = progress_.position;
    while (at.epoch < plan_.course.epochs_begun() && !out_of_patience(progress_, plan_)) {
      if (const int signal = train_epoch()) return stop(signal);
      if (at.step_in_epoch < plan_.course.steps_of(at.epoch)) break;  // train.max_steps are done
      close_line();                                                   // of an epoch that had no step left
      bool is_best = false;
      if (plan_.evaluates_after(at.epoch)) {
        evaluation_ = evaluate();
        if (!evaluation_) return stop(request_.agreed_stop());
        write_evaluation(at);
        is_best = compare_with_best(progress_, plan_, *evaluation_);
      }
      const EpochReport report = close_epoch();
      if (plan_.saves_after(report.epoch) || is_best || out_of_patience(progress_, plan_)) save();
      observer_.epoch_done(report);
    }
    if (out_of_patience(progress_, plan_)) {
      write_log(
          LogLevel::info,
          fmt::format(
              "step {}: {} evaluations in a row were not better than {} {:.6g} of {}; the run ends here "
              "(train.patience)",
              at.step, progress_.best->waited, progress_.best->metric, progress_.best->value,
              progress_.best->checkpoint));
      return 0;
    }
    return at.epoch < recipe_.train.epochs ? end_early() : 0;
  }

  /// If the data have changed, the run continues with the epoch after the current one.
  void begin_with_other_data() {
    if (plan_.begins.epoch == progress_.position.epoch) return;
    close_line();
    progress_.position = plan_.begins;
    progress_.epoch = {};
  }

  /// Ends at train.max_steps. The checkpoint comes first: a run that is resumed later then cuts off the
  /// metrics of this end. It becomes what it would have been without it.
  int end_early() {
    const TrainPosition& at = progress_.position;
    save();
    close_line();
    // An epoch that is evaluated already has its line, which the checkpoint counts.
    if (at.step_in_epoch == 0 && plan_.evaluates_after(last_epoch(at))) return 0;
    evaluation_ = evaluate();
    if (!evaluation_) return stop(request_.agreed_stop());
    TrainPosition trained = at;
    trained.epoch = last_epoch(at);
    write_evaluation(trained);
    return 0;
  }

  /// Trains from the current position to the end of the epoch's steps. Code that needs the state after a
  /// step first waits for the steps under way.
  int train_epoch() {
    const TrainPosition& at = progress_.position;
    const Phase& phase = plan_.programs.phase_of(at.epoch);
    if (at.step_in_epoch == 0 && phase.first_epoch == at.epoch && at.epoch != 0 &&
        recipe_.train.on_switch == "reset")
      reset_moments(*engine_, plan_, static_cast<std::uint64_t>(recipe_.seed));
    const std::int64_t before = at.step - at.step_in_epoch;  // of earlier epochs
    const std::int64_t all = plan_.course.steps_of(at.epoch);
    const std::int64_t last = std::min(all, plan_.course.total_steps() - before);
    if (at.step_in_epoch < last) pipeline_.open({at.epoch, at.batches, at.samples});
    for (std::int64_t begun = at.step_in_epoch; begun < last;) {
      if (const int signal = request_.agreed_stop()) {
        pipeline_.drain();
        return signal;
      }
      if (diagnosis_ != nullptr && at.step == 0 && begun == 0) diagnose();
      if (pipeline_.idle()) clock_.begin_step();
      pipeline_.submit(phase, before + begun + 1, begun == 0 && at.epoch == phase.first_epoch);
      const bool epoch_ends = ++begun == all;
      const bool line_ends = epoch_ends || (before + begun) % recipe_.train.log_every == 0;
      const bool checkpoint_due = begun % plan_.steps_per_checkpoint() == 0 && !epoch_ends;
      const bool diagnosis_due = diagnosis_ != nullptr && (before + begun) % recipe_.diagnose.every == 0;
      if (line_ends || checkpoint_due || diagnosis_due || begun == last) pipeline_.drain();
      if (line_ends) close_line();
      if (diagnosis_due) diagnose();
      if (checkpoint_due) save();
    }
    return 0;
  }

  void finish_step(const StepResults& step) {
    progress_.lr = step.lr;
    add(progress_.line, step);
    add(progress_.epoch, step);
    ++progress_.position.step;
    ++progress_.position.step_in_epoch;
    progress_.position.batches += plan_.sizes.accumulate;
    progress_.position.samples += plan_.samples_per_step();
    progress_.samples += plan_.samples_per_step();
    progress_.train_seconds += clock_.end_step();
    observer_.stepped(
        view_of(step.metrics, static_cast<double>(plan_.samples_per_step()) / clock_.step_seconds));
  }

  TrainView view_of(const MetricSums& sums, double samples_per_second) const {
    const TrainPosition& at = progress_.position;
    TrainView view;
    view.position = at;
    view.epochs = recipe_.train.epochs;
    view.steps_per_epoch = plan_.course.steps_of(at.epoch);
    view.metrics = train_means(sums);
    view.samples_per_second = samples_per_second;
    const std::int64_t steps_left = plan_.course.total_steps() - at.step;
    // One evaluation after every `every` epochs, and one after the last.
    const std::int64_t every = recipe_.eval.every, epochs = plan_.course.epochs_begun();
    const std::int64_t evaluations_left = (epochs - 1) / every - at.epoch / every + 1;
    view.seconds_left = static_cast<double>(steps_left) * clock_.step_seconds +
                        static_cast<double>(evaluations_left) * clock_.evaluation_seconds;
    return view;
  }

  /// Returns nothing if a signal asks the run to stop meanwhile.
  std::optional<Evaluation> evaluate() {
    const std::int64_t epoch = last_epoch(progress_.position);
    const Phase& phase = plan_.programs.phase_of(epoch);
    std::optional<Evaluation> evaluation = evaluations_.measure(phase);
    if (!evaluation) return std::nullopt;
    if (!std::isfinite(evaluation->loss())) {
      std::string kept;  // in addition to the one before, whatever train.keep says
      TensorMap elsewhere = states_elsewhere();
      persist([&](RunOutput& to) { kept = to.checkpoints.write(std::move(elsewhere)); });
      kept = text_of_first(*request_.group, kept);
      user_error(
          "step {} (epoch {}): the loss of the evaluation after it is not finite; {} holds the weights: {}",
          progress_.position.step, epoch + 1, kept, kFiniteAdvice);
    }
    clock_.evaluation_seconds = evaluation->seconds;
    persist([&](RunOutput&) { picture_ = evaluations_.draw(phase, epoch); });
    return evaluation;
  }

  void record(const nlohmann::ordered_json& line) {
    persist([&](RunOutput& to) { to.records.line(line); });
  }

  void write_evaluation(const TrainPosition& at) {
    record(eval_line(at, *evaluation_));
    persist([&](RunOutput& to) { to.records.evaluated(at.step, std::exchange(picture_, std::nullopt)); });
  }

  void close_line() {
    if (progress_.line.steps == 0) return;
    const double rate = line_rate();
    record(train_line(progress_.position, train_means(progress_.line.metrics),
                      progress_.line.grad_norm / static_cast<double>(progress_.line.steps), progress_.lr,
                      rate));
    observer_.logged(view_of(progress_.line.metrics, rate));
    progress_.line = {};
    clock_.line_seconds = 0;
    clock_.line_began = progress_.position.step;
  }

  /// Samples per second over the steps of the line in this process; without any, over the run.
  double line_rate() const {
    const std::int64_t steps = progress_.position.step - clock_.line_began;
    if (steps == 0) return static_cast<double>(progress_.samples) / progress_.train_seconds;
    return static_cast<double>(steps * plan_.samples_per_step()) / clock_.line_seconds;
  }

  void diagnose() {
    const TrainPosition& at = progress_.position;
    const MetricValues values =
        diagnosis_->measure(*engine_, plan_.programs.phase_of(at.epoch), at.step == 0);
    record(diagnose_line(at, values));
  }

  EpochReport close_epoch() {
    TrainPosition& at = progress_.position;
    EpochReport report;
    report.epoch = at.epoch;
    report.epochs = recipe_.train.epochs;
    report.metrics = train_means(progress_.epoch.metrics);
    if (plan_.evaluates_after(at.epoch)) report.evaluation = evaluation_;
    report.seconds = std::exchange(clock_.epoch_seconds, 0);
    progress_.last_epoch_loss = report.metrics.at(0).value;
    progress_.epoch = {};
    at = {at.epoch + 1, 0, at.step, 0, 0};
    return report;
  }

  int stop(int signal) {
    if (progress_.position.step > 0) save();
    return signal;
  }

  const TrainRequest& request_;
  RunPlan& plan_;
  const Recipe& recipe_;
  const std::string path_;  // of the run folder
  TrainObserver& observer_;
  std::unique_ptr<Engine> engine_;
  RunProgress progress_;
  const double began_with_ = progress_.train_seconds;
  std::optional<RunOutput> output_;  // on rank 0
  RunEvaluations evaluations_;
  StepPipeline pipeline_;
  std::unique_ptr<RunDiagnosis> diagnosis_;  // on rank 0, with [diagnose]
  RunClock clock_;
  std::optional<Evaluation> evaluation_;  // the last one
  std::optional<RunPicture> picture_;     // drawn by it; kept until its line is written
};

RunLoop::RunLoop(const TrainRequest& request, RunPlan& plan, const std::string& path, RunFolder* folder,
                 TrainObserver& observer, std::unique_ptr<Engine> engine, Checkpoint start,
                 std::function<void()> checkpointed)
    : run_(std::make_unique<Run>(request, plan, path, folder, observer, std::move(engine), std::move(start),
                                 std::move(checkpointed))) {}

RunLoop::~RunLoop() = default;

TrainResult RunLoop::finish() {
  try {
    return run_->finish();
  } catch (...) {
    // A device's work may wait for other ranks, and the engine's end would wait for that work. The process ends anyway.
    if (run_->shares_devices()) static_cast<void>(run_.release());
    throw;
  }
}

}  // namespace rewire::runtime
