// The loop over steps and epochs; see run_loop.h.
#include "runtime/train/run_loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "ir/error.h"
#include "programs/objective.h"
#include "runtime/device/log.h"
#include "runtime/device/process.h"
#include "runtime/io/safetensors.h"
#include "runtime/measure/neighbours.h"
#include "runtime/measure/non_finite.h"
#include "runtime/network/data_feed.h"
#include "runtime/network/initialise.h"
#include "runtime/network/weights.h"
#include "runtime/network/weights_origin.h"
#include "runtime/train/run_diagnosis.h"
#include "runtime/train/run_pictures.h"
#include "runtime/train/run_records.h"

namespace rewire::runtime {
namespace {

constexpr const char* kWayOut =
    "lower optimizer.lr, or set train.clip_norm";  // of numbers that are not finite

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double scalar(const TensorMap& results, std::string_view name) {
  return static_cast<double>(results.find(name)->second.as<float>()[0]);
}

bool is_finite(const TensorMap& results) {
  return results.find("finite")->second.as<std::uint8_t>()[0] != 0;
}

void add(TrainSums& sums, const MetricSums& step, double grad_norm) {
  ++sums.steps;
  sums.grad_norm += grad_norm;
  add_sums(sums.metrics, step);
}

}  // namespace

class RunLoop::Run {
 public:
  Run(const TrainRequest& request, RunPlan& plan, RunFolder& folder, TrainObserver& observer,
      std::unique_ptr<Engine> engine, Checkpoint&& start, std::function<void()> checkpointed)
      : request_(request),
        plan_(plan),
        recipe_(request.recipe),
        folder_(folder),
        observer_(observer),
        engine_(std::move(engine)),
        progress_(start.progress),
        checkpointed_(std::move(checkpointed)),
        records_(request, plan, folder, *engine_, start.progress),
        test_loader_(plan.test_data.load()),
        pictures_(plan, folder, *engine_, start.progress.position.epoch),
        diagnosis_(plan.diagnosed_images == 0 ? nullptr : std::make_unique<RunDiagnosis>(request, plan)) {
    progress_.sizes = plan.sizes;
    progress_.data = plan.data;
    const bool as_before =
        progress_.test_data == plan.evaluated && progress_.competing == plan.recipe.eval.classes;
    progress_.test_data = plan.evaluated;
    progress_.competing = plan.recipe.eval.classes;
    for (const auto& [name, tensor] : start.state) engine_->write_state(name, tensor);
    std::optional<BestEvaluation>& best = progress_.best;
    if (best && best->metric != plan.best_metric) {
      write_log(LogLevel::warning,
                fmt::format(
                    "{}: the best checkpoint was chosen by {}; from here on {} tells, from its next value on",
                    folder.path(), best->metric, plan.best_metric));
      best.reset();
    }
    if (best && !as_before) {
      write_log(
          LogLevel::warning,
          fmt::format("{}: the best checkpoint was chosen by other evaluations than from here on: the next "
                      "one is the best",
                      folder.path()));
      best.reset();
    }
  }

  TrainResult finish() {
    begin_with_other_data();
    observer_.started(facts());
    if (progress_.position.step > 0) persist([&] { name_checkpoints(); });  // a crash may have come between
    int signal = train_epochs();
    if (signal == 0 && !evaluation_) {  // it was complete before
      evaluation_ = evaluate();
      if (!evaluation_) signal = request_.stop_signal();
    }
    if (signal == 0) {
      persist([&] {
        const ir::Module& module = plan_.programs.module;
        write_safetensors(folder_.place(kFinalWeights), weights_of(*engine_, module), metadata());
        if (plan_.keeps_averages())
          write_safetensors(folder_.place(kFinalAverages), averages_of(*engine_, module), metadata());
      });
    }
    if (signal == 0 || progress_.position.step > 0) persist([&] { records_.end(signal == 0); });
    TrainResult result;
    result.run = folder_.path();
    result.position = progress_.position;
    result.stopped_by = signal;
    if (signal == 0) result.evaluation = evaluation_;
    result.train_loss = progress_.epoch.steps > 0 ? train_means(progress_.epoch.metrics).at(0).value
                                                  : progress_.last_epoch_loss;
    result.train_seconds = progress_.train_seconds;
    if (progress_.train_seconds > 0)
      result.samples_per_second = static_cast<double>(progress_.samples) / progress_.train_seconds;
    result.data_wait_seconds = data_wait_seconds_;
    result.new_train_seconds = progress_.train_seconds - began_with_;
    result.unreadable_samples = plan_.train_data.unreadable() + plan_.test_data.unreadable();
    result.peak_memory_bytes = peak_memory_bytes();
    return result;
  }

 private:
  /// A run that was submitted; its inputs are kept for a replay.
  struct Pending {
    Engine::Ticket ticket;
    std::string program;
    TensorMap inputs;
    bool ends_step;
  };

  /// As the phase tells them that the run stands in.
  MetricValues train_means(const MetricSums& sums) const {
    return means(sums, plan_.programs.phase_of(last_epoch(progress_.position)).train_metrics);
  }

  RunFacts facts() const {
    RunFacts facts;
    facts.run = folder_.path();
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

  /// 0, or the signal that stopped it; then a checkpoint is written.
  int train_epochs() {
    TrainPosition& at = progress_.position;
    while (at.epoch < plan_.course.epochs_begun() && !out_of_patience()) {
      if (const int signal = train_epoch()) return stop(signal);
      if (at.step_in_epoch < plan_.course.steps_of(at.epoch)) break;  // train.max_steps are done
      close_line();                                                   // of an epoch that had no step left
      bool is_best = false;
      if (plan_.evaluates_after(at.epoch)) {
        evaluation_ = evaluate();
        if (!evaluation_) return stop(request_.stop_signal());
        write_evaluation(at);
        is_best = compare_with_best(*evaluation_);
      }
      const EpochReport report = close_epoch();
      if (plan_.saves_after(report.epoch) || is_best || out_of_patience()) save();
      observer_.epoch_done(report);
    }
    if (out_of_patience()) {
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

  bool out_of_patience() const {
    return recipe_.train.patience > 0 && progress_.best && progress_.best->waited >= recipe_.train.patience;
  }

  /// Where the data have become others, the run goes on behind the epoch that it was in.
  void begin_with_other_data() {
    if (plan_.begins.epoch == progress_.position.epoch) return;
    close_line();
    progress_.position = plan_.begins;
    progress_.epoch = {};
  }

  /// At the end of an epoch: whether the evaluation is better than all before it. One that is no number never is.
  bool compare_with_best(const Evaluation& evaluation) {
    const auto told = std::ranges::find(evaluation.metrics, plan_.best_metric, &MetricValue::name);
    const double value = told == evaluation.metrics.end() ? NAN : told->value;
    std::optional<BestEvaluation>& best = progress_.best;
    const bool higher = programs::metric_info(plan_.best_metric).better == programs::Better::higher;
    if (!std::isfinite(value) || (best && !(higher ? value > best->value : value < best->value))) {
      if (best) ++best->waited;
      return false;
    }
    const TrainPosition& at = progress_.position;
    best = {plan_.best_metric, value, RunFolder::checkpoint_name(at.epoch + 1, at.step), 0};
    return true;
  }

  /// At train.max_steps: the checkpoint first, so that a run that goes on later cuts off the metrics that are
  /// of this end alone, and becomes what it would have been without one.
  int end_early() {
    const TrainPosition& at = progress_.position;
    save();
    close_line();
    // At the end of an epoch that is evaluated there is that line already, counted by the checkpoint.
    if (at.step_in_epoch == 0 && plan_.evaluates_after(last_epoch(at))) return 0;
    evaluation_ = evaluate();
    if (!evaluation_) return stop(request_.stop_signal());
    TrainPosition trained = at;
    trained.epoch = last_epoch(at);
    write_evaluation(trained);
    return 0;
  }

  /// From where the run stands to the end of the epoch's steps. A device is given its next runs before the
  /// results of the last are read; whoever needs to know where the run stands waits for them first.
  int train_epoch() {
    const TrainPosition& at = progress_.position;
    const Phase& phase = plan_.programs.phase_of(at.epoch);
    if (at.step_in_epoch == 0 && phase.first_epoch == at.epoch && at.epoch != 0) enter_phase();
    const std::int64_t before = at.step - at.step_in_epoch;  // of earlier epochs
    const std::int64_t all = plan_.course.steps_of(at.epoch);
    const std::int64_t last = std::min(all, plan_.course.total_steps() - before);
    if (at.step_in_epoch < last) open_data();
    for (std::int64_t begun = at.step_in_epoch; begun < last;) {
      if (const int signal = request_.stop_signal()) {
        settle(0);
        return signal;
      }
      if (diagnosis_ != nullptr && at.step == 0 && begun == 0) diagnose();
      step(phase, before + begun + 1, begun == 0 && at.epoch == phase.first_epoch);
      const bool epoch_ends = ++begun == all;
      const bool line_ends = epoch_ends || (before + begun) % recipe_.train.log_every == 0;
      const bool checkpoint_due = begun % plan_.steps_per_checkpoint() == 0 && !epoch_ends;
      const bool diagnosis_due = diagnosis_ != nullptr && (before + begun) % recipe_.diagnose.every == 0;
      if (line_ends || checkpoint_due || diagnosis_due || begun == last) settle(0);
      if (line_ends) close_line();
      if (diagnosis_due) diagnose();
      if (checkpoint_due) save();
    }
    return 0;
  }

  /// The optimizer's memory of another network: kept, or begun anew.
  void enter_phase() {
    if (recipe_.train.on_switch == "keep") return;
    ir::Module memory;
    for (const ir::Parameter& parameter : plan_.programs.module.parameters) {
      if (parameter.kind == ir::StateKind::moment) memory.parameters.push_back(parameter);
    }
    for (const auto& [name, tensor] : initialise(memory, static_cast<std::uint64_t>(recipe_.seed)))
      engine_->write_state(name, tensor);
  }

  /// Batches that do not make up a step at the end of an epoch are passed over.
  void open_data() {
    const TrainPosition& at = progress_.position;
    const DataPosition wanted{at.epoch, at.batches, at.samples};
    if (train_loader_ == nullptr) train_loader_ = plan_.train_data.load(wanted);
    Batch passed_over;
    while (train_loader_->position() != wanted) train_loader_->next(passed_over);
  }

  /// Submits the runs of step `number` of the run, counted from 1, and reads what has been finished
  /// meanwhile.
  void step(const Phase& phase, std::int64_t number, bool begins_phase) {
    const std::int64_t accumulate = recipe_.train.accumulate;
    const std::string program = phase.program(accumulate == 1 ? "step" : "accumulate");
    if (pending_.empty()) step_began_ = seconds_now();
    for (std::int64_t micro = 0; micro < accumulate; ++micro) {
      Batch batch;
      if (!spare_.empty()) {
        batch = std::move(spare_.back());
        spare_.pop_back();
      }
      const double asked = seconds_now();
      train_loader_->next(batch);
      data_wait_seconds_ += seconds_now() - asked;
      TensorMap inputs = take_inputs(plan_.programs.module.function(program), batch);
      submit(program, std::move(inputs), accumulate == 1);
    }
    if (accumulate > 1) submit(phase.program("apply"), {}, true);
    for (const std::string& refresh :
         programs::refreshes_behind(number, begins_phase, plan_.programs.refresh_period))
      submit(phase.program(refresh), {}, false);
  }

  void submit(const std::string& program, TensorMap inputs, bool ends_step) {
    const Engine::Ticket ticket = engine_->submit(program, inputs);
    pending_.push_back({ticket, program, std::move(inputs), ends_step});
    settle(kRunsAhead);
  }

  /// Reads results until no more than `ahead` runs are under way, and of those what is finished.
  void settle(std::size_t ahead) {
    while (!pending_.empty() && (pending_.size() > ahead || engine_->finished(pending_.front().ticket))) {
      Pending run = std::move(pending_.front());
      pending_.pop_front();
      read(run);
    }
  }

  void read(Pending& run) {
    const TensorMap results = engine_->results(run.ticket);
    if (!is_finite(results)) fail_step(run.program, run.inputs);
    if (!run.inputs.empty()) {
      add_results(step_, plan_.programs.phase_of(progress_.position.epoch).train_metrics, results);
      put_back(std::move(run.inputs), spare_.emplace_back());
    }
    if (run.ends_step) finish_step(results);
  }

  void finish_step(const TensorMap& results) {
    progress_.lr = scalar(results, "lr");
    const MetricSums step = std::exchange(step_, {});
    add(progress_.line, step, scalar(results, "grad_norm"));
    add(progress_.epoch, step, scalar(results, "grad_norm"));
    ++progress_.position.step;
    ++progress_.position.step_in_epoch;
    progress_.position.batches += recipe_.train.accumulate;
    progress_.position.samples += plan_.samples_per_step();
    progress_.samples += plan_.samples_per_step();
    const double now = seconds_now(), took = now - std::exchange(step_began_, now);
    line_seconds_ += took;
    epoch_seconds_ += took;
    progress_.train_seconds += took;
    recent_seconds_ = recent_seconds_ == 0 ? took : 0.9 * recent_seconds_ + 0.1 * took;
    observer_.stepped(view_of(step, static_cast<double>(plan_.samples_per_step()) / recent_seconds_));
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
    // Those after every so many epochs, and one after the last.
    const std::int64_t every = recipe_.eval.every, epochs = plan_.course.epochs_begun();
    const std::int64_t evaluations_left = (epochs - 1) / every - at.epoch / every + 1;
    view.seconds_left = static_cast<double>(steps_left) * recent_seconds_ +
                        static_cast<double>(evaluations_left) * evaluation_seconds_;
    return view;
  }

  /// Nothing if a signal asks the run to stop meanwhile.
  std::optional<Evaluation> evaluate() {
    const std::int64_t epoch = last_epoch(progress_.position);
    const Phase& phase = plan_.programs.phase_of(epoch);
    const auto go_on = [&](std::int64_t done) {
      observer_.evaluating(done, test_loader_->batches_per_epoch());
      return request_.stop_signal() == 0;
    };
    const ir::Module& module = plan_.programs.module;
    std::vector<EvalProgram> evaluated = {{module.function(phase.program("eval")), phase.eval_metrics}};
    if (plan_.keeps_averages())
      evaluated.push_back(
          {module.function(phase.program("eval_ema")), phase.eval_metrics, programs::kOfAverages});
    std::optional<Evaluation> evaluation = runtime::evaluate(
        *engine_, evaluated, *test_loader_, go_on, [&](Batch& first) { pictures_.see(phase, first); });
    if (evaluation && !add_neighbours(phase, *evaluation)) return std::nullopt;
    if (evaluation && !std::isfinite(evaluation->loss())) {
      std::string kept;
      persist([&] { kept = write(); });  // beside the one before, whatever train.keep says
      user_error(
          "step {} (epoch {}): the loss of the evaluation after it is not finite; {} holds the weights: {}",
          progress_.position.step, epoch + 1, kept, kWayOut);
    }
    if (evaluation) {
      evaluation_seconds_ = evaluation->seconds;
      persist([&] { picture_ = pictures_.write(phase, epoch); });
    }
    return evaluation;
  }

  void record(const nlohmann::ordered_json& line) {
    persist([&] { records_.line(line); });
  }

  void write_evaluation(const TrainPosition& at) {
    record(eval_line(at, *evaluation_));
    persist([&] { records_.evaluated(at.step, std::exchange(picture_, std::nullopt)); });
  }

  /// False if a signal asks the run to stop meanwhile.
  bool add_neighbours(const Phase& phase, Evaluation& evaluation) {
    if (plan_.bank_data == nullptr || !std::isfinite(evaluation.loss())) return true;
    const double began = seconds_now();
    const ir::Module& module = plan_.programs.module;
    std::vector<FeatureProgram> programs = {{module.function(phase.program("features"))}};
    if (plan_.keeps_averages())
      programs.push_back({module.function(phase.program("features_ema")), programs::kOfAverages});
    const auto metrics = neighbour_metrics(*engine_, programs, *plan_.bank_data, plan_.test_data,
                                           {recipe_.eval.knn, recipe_.eval.knn_images},
                                           [&] { return request_.stop_signal() == 0; });
    if (!metrics) return false;
    evaluation.metrics.insert(evaluation.metrics.end(), metrics->begin(), metrics->end());
    evaluation.seconds += seconds_now() - began;
    return true;
  }

  void close_line() {
    if (progress_.line.steps == 0) return;
    const double rate = line_rate();
    record(train_line(progress_.position, train_means(progress_.line.metrics),
                      progress_.line.grad_norm / static_cast<double>(progress_.line.steps), progress_.lr,
                      rate));
    observer_.logged(view_of(progress_.line.metrics, rate));
    progress_.line = {};
    line_seconds_ = 0;
    line_began_ = progress_.position.step;
  }
  /// Images a second, over the steps of the line that this process did; where it did none, over the run.
  double line_rate() const {
    const std::int64_t steps = progress_.position.step - line_began_;
    if (steps == 0) return static_cast<double>(progress_.samples) / progress_.train_seconds;
    return static_cast<double>(steps * plan_.samples_per_step()) / line_seconds_;
  }

  /// Of the state as it stands, between two steps.
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
    report.seconds = epoch_seconds_;
    progress_.last_epoch_loss = report.metrics.at(0).value;
    progress_.epoch = {};
    epoch_seconds_ = 0;
    at = {at.epoch + 1, 0, at.step, 0, 0};
    return report;
  }

  /// Where nothing has been done, there is nothing to save.
  int stop(int signal) {
    if (progress_.position.step > 0) save();
    return signal;
  }

  void save() {
    persist([&] { write(); });
    folder_.prune_checkpoints(recipe_.train.keep, progress_.best ? progress_.best->checkpoint : "");
  }

  std::string write() {
    progress_.epochs_done = plan_.course.epochs_done(progress_.position.step);
    records_.sync(progress_);
    std::string path = write_checkpoint(folder_.path(), progress_, *engine_, plan_.programs.module,
                                        request_.network.plugins, metadata());
    const bool is_new =
        progress_.position.step > began_at_.step || progress_.position.epoch != began_at_.epoch;
    if (checkpointed_ && is_new) std::exchange(checkpointed_, nullptr)();
    name_checkpoints();
    return path;
  }

  /// Of the weights of the phase that the run is in.
  const std::map<std::string, std::string>& metadata() {
    const std::int64_t phase = plan_.programs.phase_of(last_epoch(progress_.position)).first_epoch;
    if (phase != metadata_of_) {
      metadata_ = origin_metadata(origin_of(recipe_, request_.network, phase, plan_.data.classes));
      metadata_of_ = phase;
    }
    return metadata_;
  }

  /// `last` and `best`, to what is there.
  void name_checkpoints() const {
    std::vector<std::string> names;
    for (const std::string& path : folder_.checkpoints())
      names.push_back(std::filesystem::path(path).filename().string());
    const std::string best = progress_.best ? progress_.best->checkpoint : "";
    folder_.name_checkpoint("last", names.empty() ? "" : names.back());
    folder_.name_checkpoint("best", std::ranges::find(names, best) == names.end() ? "" : best);
  }

  /// Writing may find a full disk: the error then says what is left to go on from.
  template <class Write>
  void persist(Write write) {
    folder_.require_held();
    try {
      write();
    } catch (const UserError& error) {
      folder_.require_held();  // it may have been taken away since
      const std::vector<std::string> intact = folder_.checkpoints();
      user_error("step {}: {}; {}", progress_.position.step, error.what(),
                 intact.empty() ? "no checkpoint had been written before: mend this and train again"
                                : fmt::format("{} is intact: mend this, then rewire train --resume {}",
                                              intact.back(), folder_.path()));
    }
  }

  /// The step changed nothing. That state is kept before the replay, which takes long; and beside the
  /// checkpoint before it, for the cause may be an update that went too far, a step or two ago.
  [[noreturn]] void fail_step(const std::string& program, const TensorMap& inputs) {
    folder_.require_held();
    const std::vector<std::string> before = folder_.checkpoints();
    const TensorMap replayed = clear_step();
    std::string kept, path;
    try {
      path = write();
      kept = fmt::format("{} holds the state before it", path);
    } catch (const UserError& error) {
      kept = fmt::format("the state before it is lost ({})", error.what());
    }
    for (const auto& [name, tensor] : replayed) engine_->write_state(name, tensor);
    observer_.replaying(program);
    const std::string cause = first_non_finite(plan_.programs.module, program, *engine_, inputs);
    std::string way_out = kWayOut;
    if (!before.empty() && before.back() != path)
      way_out += fmt::format("; remove it to go on from {}", before.back());
    user_error("step {} (epoch {}): the loss or a gradient is not finite: {}; {}: {}",
               progress_.position.step + 1, progress_.position.epoch + 1, cause, kept, way_out);
  }

  /// Raises the flag that the step let fall and clears the sums of the micro-batches before it; returns what
  /// was there.
  TensorMap clear_step() {
    TensorMap was;
    for (const ir::Parameter& parameter : plan_.programs.module.parameters) {
      const std::string& name = parameter.name;
      const bool is_flag = parameter.kind == ir::StateKind::flag;
      if (!is_flag && parameter.kind != ir::StateKind::partial) continue;
      was.emplace(name, engine_->read_state(name));
      HostTensor cleared(parameter.type);
      if (is_flag) cleared.as<std::uint8_t>()[0] = 1;
      engine_->write_state(name, cleared);
    }
    return was;
  }

  const TrainRequest& request_;
  RunPlan& plan_;
  const Recipe& recipe_;
  RunFolder& folder_;
  TrainObserver& observer_;
  std::unique_ptr<Engine> engine_;
  RunProgress progress_;
  const TrainPosition began_at_ = progress_.position;
  std::function<void()> checkpointed_;
  RunRecords records_;
  std::unique_ptr<Loader> train_loader_, test_loader_;
  RunPictures pictures_;
  std::unique_ptr<RunDiagnosis> diagnosis_;  // none without [diagnose]
  std::deque<Pending> pending_;
  std::vector<Batch> spare_;              // memory of batches that were read
  MetricSums step_;                       // of the step whose results are being read
  std::optional<Evaluation> evaluation_;  // of the last evaluation
  std::optional<RunPicture> picture_;     // that it drew, until its line is written
  std::map<std::string, std::string>
      metadata_;  // of files of weights, in the phase that begins with this epoch
  std::int64_t metadata_of_ = -1;
  double step_began_ = 0;  // or the step before it ended
  double data_wait_seconds_ = 0;
  const double began_with_ = progress_.train_seconds;  // of seconds in steps
  double line_seconds_ = 0, epoch_seconds_ = 0, recent_seconds_ = 0, evaluation_seconds_ = 0;
  std::int64_t line_began_ = progress_.position.step;
};

RunLoop::RunLoop(const TrainRequest& request, RunPlan& plan, RunFolder& folder, TrainObserver& observer,
                 std::unique_ptr<Engine> engine, Checkpoint start, std::function<void()> checkpointed)
    : run_(std::make_unique<Run>(request, plan, folder, observer, std::move(engine), std::move(start),
                                 std::move(checkpointed))) {}

RunLoop::~RunLoop() = default;

TrainResult RunLoop::finish() {
  return run_->finish();
}

}  // namespace rewire::runtime
