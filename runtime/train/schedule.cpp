// Warm-up, then constant, cosine or multistep; scalars in f64, so that a long run's rate is exact.
#include "runtime/train/schedule.h"

#include <algorithm>
#include <numbers>

#include "ir/error.h"

namespace rewire::runtime {
namespace {

using ir::Builder;
using ir::DType;
using ir::Opcode;
using ir::Value;

Value cosine(Builder& b, Value s, double lr, const ScheduleOptions& o) {
  const auto span = static_cast<double>(o.total_steps - o.warmup_steps);
  Value done = b.div(b.sub(s, static_cast<double>(o.warmup_steps)), span);
  done = b.binary(Opcode::minimum, done, b.constant_like(done, 1));
  Value wave = b.add(b.unary(Opcode::cos, b.mul(done, std::numbers::pi)), 1);
  return b.add(b.mul(wave, (lr - o.min_lr) / 2), o.min_lr);
}

Value multistep(Builder& b, Value s, double lr, const ScheduleOptions& o) {
  Value rate = b.constant_like(s, lr);
  Value one = b.constant_like(s, 1), gamma = b.constant_like(s, o.gamma);
  for (std::int64_t milestone : o.milestones) {
    Value passed = b.compare("ge", s, b.constant_like(s, static_cast<double>(milestone)));
    rate = b.mul(rate, b.select(passed, gamma, one));
  }
  return rate;
}

}  // namespace

void check_schedule(const ScheduleOptions& o) {
  const std::vector<std::string> names = {"constant", "cosine", "multistep"};
  if (std::find(names.begin(), names.end(), o.name) == names.end()) {
    user_error("schedule.name is '{}'; it is constant, cosine or multistep{}", o.name,
               did_you_mean(o.name, names));
  }
  if (o.warmup_steps < 0) user_error("schedule.warmup_steps is {}; it must not be negative", o.warmup_steps);
  if (!(o.warmup_lr >= 0)) user_error("schedule.warmup_lr is {}; it must not be negative", o.warmup_lr);
  if (!(o.min_lr >= 0)) user_error("schedule.min_lr is {}; it must not be negative", o.min_lr);
  if (o.name == "cosine" && o.total_steps <= o.warmup_steps) {
    user_error("the cosine schedule has {} steps, of which {} are warm-up; train longer or warm up less",
               o.total_steps, o.warmup_steps);
  }
  if (o.name == "multistep" && !std::is_sorted(o.milestones.begin(), o.milestones.end())) {
    user_error("schedule.milestones must be in ascending order");
  }
}

Value learning_rate(Builder& b, Value step, double lr, const ScheduleOptions& o) {
  check_schedule(o);
  Value s = b.cast(step, DType::f64);
  Value rate = b.constant_like(s, lr);
  if (o.name == "cosine") rate = cosine(b, s, lr, o);
  if (o.name == "multistep") rate = multistep(b, s, lr, o);
  if (o.warmup_steps == 0) return rate;
  const auto warmup = static_cast<double>(o.warmup_steps);
  Value ramp = b.add(b.mul(s, (lr - o.warmup_lr) / warmup), o.warmup_lr);
  return b.select(b.compare("lt", s, b.constant_like(s, warmup)), ramp, rate);
}

}  // namespace rewire::runtime
