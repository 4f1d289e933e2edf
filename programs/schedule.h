// The learning rate, and what else follows the run, as a function of the step, as IR: it is computed on the device
// from train.step.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/builder.h"
#include "ir/registry.h"

namespace rewire::programs {

/// How long a run is, in optimizer steps.
struct Timeline {
  /// From step `step` of the run on, a step is `rate` of one of the schedule, which had come to its step `place` there: an
  /// epoch has had other batches before.
  struct Change {
    std::int64_t step = 0;
    double place = 0, rate = 1;
  };

  double steps_per_epoch = 1;
  std::int64_t total_steps = 0;  // 0: it has no end
  std::optional<Change> change = std::nullopt;

  std::int64_t steps(double epochs) const;  // the nearest; a half rounds away from zero
  /// The step of the schedule that the run's step `step` is, at or after the change.
  double scheduled(std::int64_t step) const;
};

/// Timeline::scheduled of `step` i64[], updates done, as f64[]: what everything that follows the run is a function of.
ir::Value scheduled_step(ir::Builder& builder, ir::Value step, const Timeline& timeline);

inline constexpr double kMostEpochs = 1e9;  // a product with any other such number is far from overflow

/// warmup_epochs and warmup_lr, which every schedule has, then `own`.
ir::Schema with_warmup(ir::Schema own);

struct ScheduleRow {
  std::string_view name, doc;
  ir::Schema schema;  // with_warmup
  /// f64[] of `s` f64[], the updates done before this one, behind the warm-up. UserError where the values do
  /// not go together.
  ir::Value (*rate)(ir::Builder& builder, ir::Value s, double lr, const ir::Attributes& values,
                    const Timeline& timeline);
};

std::span<const ScheduleRow* const> schedules();

/// With s = `step` (i64[], updates done before this one) and W = warmup_epochs in steps, as f64[]:
/// s < W: warmup_lr + (lr - warmup_lr) s / W, else the schedule's own. PyTorch's LinearLR,
/// CosineAnnealingLR and MultiStepLR, stepped once an update, give the same. UserError naming the key.
ir::Value learning_rate(ir::Builder& builder, ir::Value step, double lr, const ir::Selection& schedule,
                        const Timeline& timeline);

/// Steps of a run.
struct Span {
  double begin, length;
};
/// to + (from - to)(1 + cos(pi min((s - begin) / length, 1))) / 2, f64[] of `s` f64[].
ir::Value half_cosine(ir::Builder& builder, ir::Value s, double from, double to, const Span& span);

}  // namespace rewire::programs
