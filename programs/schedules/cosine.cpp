#include "programs/schedule.h"

namespace rewire::programs {
namespace {

using ir::Value;

/// With T = total_steps: min_lr + (lr - min_lr) (1 + cos(pi min((s - W) / (T - W), 1))) / 2. Without
/// warmup_prefix: min_lr + (lr - min_lr) (1 + cos(pi min(s / T, 1))) / 2, and the warm-up covers the
/// beginning of the cosine.
Value cosine(ir::Builder& b, Value s, double lr, const ir::Attributes& values, const Timeline& timeline) {
  const std::int64_t warmup = timeline.steps(values.get_double("warmup_epochs"));
  const double min_lr = values.get_double("min_lr");
  if (timeline.total_steps <= warmup) {
    user_error("the cosine schedule has {} steps, of which {} are warm-up; train longer or warm up less",
               timeline.total_steps, warmup);
  }
  const auto begin = values.get_bool("warmup_prefix") ? static_cast<double>(warmup) : 0.0;
  return half_cosine(b, s, lr, min_lr, {begin, static_cast<double>(timeline.total_steps) - begin});
}

}  // namespace

extern const ScheduleRow kCosineSchedule{
    "cosine", "half a cosine wave down to min_lr at the end of the run",
    with_warmup(
        {ir::float_parameter("min_lr", 0, "learning rate at the last step").at_least(0),
         ir::bool_parameter("warmup_prefix", true,
                            "begin the cosine after the warm-up; false: with it, as timm's default does")}),
    cosine};

}  // namespace rewire::programs
