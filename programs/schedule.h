// The learning rate, and other values that follow the run, as functions of the step in IR. The device
// computes them from train.step.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/builder.h"
#include "ir/registry.h"

namespace rewire::programs {

/// The length of a run, in optimizer steps.
struct Timeline {
  /// From the run's step `step` on, where the schedule is at its step `place`, each step advances the
  /// schedule by `rate` steps. A change of the batches per epoch causes it.
  struct Change {
    std::int64_t step = 0;
    double place = 0, rate = 1;
  };

  double steps_per_epoch = 1;
  std::int64_t total_steps = 0;  // 0: no end
  std::optional<Change> change = std::nullopt;

  std::int64_t steps(double epochs) const;  // the nearest; a half rounds away from zero
  /// Returns the schedule's step at the run's step `step`, which is at or after the change.
  double scheduled(std::int64_t step) const;
};

/// Returns Timeline::scheduled of `step` i64[], the updates done, as f64[]. All that follows the run is a
/// function of it.
ir::Value scheduled_step(ir::Builder& builder, ir::Value step, const Timeline& timeline);

inline constexpr double kMostEpochs = 1e9;  // a product with any other such number is far from overflow

/// Returns warmup_epochs and warmup_lr, which every schedule has, then `own`.
ir::Schema with_warmup(ir::Schema own);

struct ScheduleRow {
  std::string_view name, doc;
  ir::Schema schema;  // made by with_warmup()
  /// Returns the rate after the warm-up, f64[], from `s` f64[], the updates before this one. Throws
  /// UserError if the values conflict.
  ir::Value (*rate)(ir::Builder& builder, ir::Value s, double lr, const ir::Attributes& values,
                    const Timeline& timeline);
};

std::span<const ScheduleRow* const> schedules();

/// Returns the learning rate as f64[]. With s = `step` (i64[], updates before this one) and W =
/// warmup_epochs in steps, it is warmup_lr + (lr - warmup_lr) s / W for s < W, else the schedule's own.
/// PyTorch's LinearLR, CosineAnnealingLR and MultiStepLR, stepped once per update, give the same. Throws
/// UserError, naming the key.
ir::Value learning_rate(ir::Builder& builder, ir::Value step, double lr, const ir::Selection& schedule,
                        const Timeline& timeline);

/// A span of a run's steps.
struct Span {
  double begin, length;
};
/// Returns to + (from - to)(1 + cos(pi min((s - begin) / length, 1))) / 2, f64[], from `s` f64[].
ir::Value half_cosine(ir::Builder& builder, ir::Value s, double from, double to, const Span& span);

}  // namespace rewire::programs
