#include "runtime/train/run_checkpoints.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "runtime/group/agreement.h"
#include "runtime/measure/non_finite.h"
#include "runtime/network/weights_origin.h"
#include "runtime/train/step_pipeline.h"

namespace rewire::runtime {
namespace {

/// Raises the flag that the step lowered and clears the sums of the micro-batches
/// before it. Returns the old values.
TensorMap clear_step(const ir::Module& module, Engine& engine) {
  TensorMap was;
  for (const ir::Parameter& parameter : module.parameters) {
    const std::string& name = parameter.name;
    const bool is_flag = parameter.kind == ir::StateKind::flag;
    if (!is_flag && parameter.kind != ir::StateKind::partial) continue;
    was.emplace(name, engine.read_state(name));
    HostTensor cleared(parameter.type);
    if (is_flag) cleared.as<std::uint8_t>()[0] = 1;
    engine.write_state(name, cleared);
  }
  return was;
}

/// Returns where the first number of the step that is not finite is.
std::string cause_of(const NonFiniteStep& step, const RunPlan& plan, const Engine& engine) {
  if (!plan.shares) return first_non_finite(plan.programs.module, step.program, engine, step.inputs);
  if (step.program.starts_with("apply"))
    return "the sum over all ranks is not";  // no rank could replay all of it
  ir::Module module = plan.computed();       // without what other ranks alone have
  std::erase_if(module.functions,
                [&](const ir::Function& function) { return function.name != step.program; });
  module.drop_unused_parameters();
  return first_non_finite(module, step.program, engine, step.inputs);
}

}  // namespace

RunCheckpoints::RunCheckpoints(const TrainRequest& request, const RunPlan& plan, RunFolder& folder,
                               Engine& engine, RunRecords& records, RunProgress& progress,
                               std::function<void()> first_written)
    : request_(request),
      plan_(plan),
      folder_(folder),
      engine_(engine),
      records_(records),
      progress_(progress),
      first_written_(std::move(first_written)) {}

void RunCheckpoints::fail(const UserError& error) const {
  folder_.require_held();  // the folder may have been removed or replaced since
  const std::vector<std::string> intact = folder_.checkpoints();
  user_error("step {}: {}; {}", progress_.position.step, error.what(),
             intact.empty() ? "no checkpoint had been written before: fix this and train again"
                            : fmt::format("{} is intact: fix this, then rewire train --resume {}",
                                          intact.back(), folder_.path()));
}

void RunCheckpoints::save(TensorMap elsewhere) {
  persist([&] { write(std::move(elsewhere)); });
  folder_.prune_checkpoints(plan_.recipe.train.keep, progress_.best ? progress_.best->checkpoint : "");
}

std::string RunCheckpoints::write(TensorMap elsewhere) {
  progress_.epochs_done = plan_.course.epochs_done(progress_.position.step);
  records_.sync(progress_);
  std::string path = write_checkpoint(folder_.path(), progress_, engine_, plan_.programs.module,
                                      request_.network.plugins, metadata(), std::move(elsewhere));
  const bool is_new = progress_.position.step > began_at_.step || progress_.position.epoch != began_at_.epoch;
  if (first_written_ && is_new) std::exchange(first_written_, nullptr)();
  name();
  return path;
}

const std::map<std::string, std::string>& RunCheckpoints::metadata() {
  const std::int64_t phase = plan_.programs.phase_of(last_epoch(progress_.position)).first_epoch;
  if (phase != metadata_phase_) {
    metadata_ = origin_metadata(origin_of(plan_.recipe, request_.network, phase, plan_.data.classes));
    metadata_phase_ = phase;
  }
  return metadata_;
}

void RunCheckpoints::name() const {
  std::vector<std::string> names;
  for (const std::string& path : folder_.checkpoints())
    names.push_back(std::filesystem::path(path).filename().string());
  const std::string best = progress_.best ? progress_.best->checkpoint : "";
  folder_.name_checkpoint("last", names.empty() ? "" : names.back());
  folder_.name_checkpoint("best", std::ranges::find(names, best) == names.end() ? "" : best);
}

void fail_step(const NonFiniteStep& step, const RunPlan& plan, Engine& engine, const RunFolder* folder,
               RunCheckpoints* checkpoints, TrainObserver& observer, const TrainPosition& at, Group& group,
               TensorMap elsewhere) {
  std::string kept;  // what is left, and what to do
  const TensorMap replayed = clear_step(plan.programs.module, engine);
  if (checkpoints != nullptr) {
    folder->require_held();
    const std::vector<std::string> before = folder->checkpoints();
    std::string path;
    try {
      path = checkpoints->write(std::move(elsewhere));  // before the replay, which takes long
      kept = fmt::format("{} holds the state before it: {}", path, kFiniteAdvice);
    } catch (const UserError& error) {
      kept = fmt::format("the state before it is lost ({}): {}", error.what(), kFiniteAdvice);
    }
    if (!before.empty() && before.back() != path)
      kept += fmt::format("; remove it to resume from {}", before.back());
  }
  kept = text_of_first(group, kept);
  if (step.rank != group.rank()) group.barrier();  // the rank that replays ends this process
  for (const auto& [name, tensor] : replayed) engine.write_state(name, tensor);
  observer.replaying(step.program);
  const std::string cause = cause_of(step, plan, engine);
  user_error("step {} (epoch {}): the loss or a gradient is not finite: {}; {}", at.step + 1, at.epoch + 1,
             cause, kept);
}

}  // namespace rewire::runtime
