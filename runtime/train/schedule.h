// The learning rate as a function of the step, as IR: it is computed on the device from train.step.
#pragma once

#include "ir/builder.h"
#include "runtime/train/program.h"

namespace rewire::runtime {

/// UserError if the schedule cannot be: unknown name, cosine that ends within its warm-up, milestones out of
/// order.
void check_schedule(const ScheduleOptions& options);

/// With s = `step` (i64[], updates done before this one), W = warmup_steps, T = total_steps, as f64[]:
///   s < W        warmup_lr + (lr - warmup_lr) s / W
///   constant     lr
///   cosine       min_lr + (lr - min_lr) (1 + cos(pi min((s - W) / (T - W), 1))) / 2
///   multistep    lr gamma^(number of milestones <= s)
/// PyTorch's LinearLR, CosineAnnealingLR and MultiStepLR, stepped once an update, give the same.
ir::Value learning_rate(ir::Builder& builder, ir::Value step, double lr, const ScheduleOptions& options);

}  // namespace rewire::runtime
