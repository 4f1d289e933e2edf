// Warm-up, then constant, cosine or multistep; scalars in f64, so that a long run's rate is exact.
#include "programs/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rewire::programs {
namespace {

using ir::Attributes;
using ir::Builder;
using ir::DType;
using ir::Opcode;
using ir::Value;

constexpr double kMostEpochs = 1e9;  // a product with any other such number is far from overflow

ir::Schema with_warmup(ir::Schema own) {
  ir::Schema schema = {
      ir::float_parameter("warmup_epochs", 0, "epochs of linear growth from warmup_lr to optimizer.lr")
          .at_least(0)
          .at_most(kMostEpochs),
      ir::float_parameter("warmup_lr", 0, "learning rate of the first step of a warm-up").at_least(0)};
  schema.insert(schema.end(), own.begin(), own.end());
  return schema;
}

Value constant(Builder& b, Value s, double lr, const Attributes&, const Timeline&) {
  return b.constant_like(s, lr);
}

/// min_lr + (lr - min_lr) (1 + cos(pi min((s - W) / (T - W), 1))) / 2 with T = total_steps.
Value cosine(Builder& b, Value s, double lr, const Attributes& values, const Timeline& timeline) {
  const std::int64_t warmup = timeline.steps(values.get_double("warmup_epochs"));
  const double min_lr = values.get_double("min_lr");
  if (timeline.total_steps <= warmup) {
    user_error("the cosine schedule has {} steps, of which {} are warm-up; train longer or warm up less",
               timeline.total_steps, warmup);
  }
  const auto span = static_cast<double>(timeline.total_steps - warmup);
  Value done = b.div(b.sub(s, static_cast<double>(warmup)), span);
  done = b.binary(Opcode::minimum, done, b.constant_like(done, 1));
  Value wave = b.add(b.unary(Opcode::cos, b.mul(done, std::numbers::pi)), 1);
  return b.add(b.mul(wave, (lr - min_lr) / 2), min_lr);
}

/// lr gamma^(number of milestones <= s)
Value multistep(Builder& b, Value s, double lr, const Attributes& values, const Timeline& timeline) {
  const ir::Doubles& milestones = values.get<ir::Doubles>("milestones");
  if (!std::ranges::is_sorted(milestones)) user_error("schedule.milestones must be in ascending order");
  Value rate = b.constant_like(s, lr);
  Value one = b.constant_like(s, 1), gamma = b.constant_like(s, values.get_double("gamma"));
  for (const double milestone : milestones) {
    const auto at = static_cast<double>(timeline.steps(milestone));
    Value passed = b.compare("ge", s, b.constant_like(s, at));
    rate = b.mul(rate, b.select(passed, gamma, one));
  }
  return rate;
}

const ScheduleRow kConstant{"constant", "optimizer.lr throughout", with_warmup({}), constant};
const ScheduleRow kCosine{
    "cosine", "half a cosine wave down to min_lr at the end of the run",
    with_warmup({ir::float_parameter("min_lr", 0, "learning rate at the end").at_least(0)}), cosine};
const ScheduleRow kMultistep{
    "multistep", "times gamma at each milestone",
    with_warmup(
        {ir::list_parameter("milestones", {}, "epochs, in ascending order").above(0).at_most(kMostEpochs),
         ir::float_parameter("gamma", 0.1, "factor at a milestone").at_least(0)}),
    multistep};

}  // namespace

std::int64_t Timeline::steps(double epochs) const {
  return static_cast<std::int64_t>(std::llround(epochs * steps_per_epoch));
}

std::span<const ScheduleRow* const> schedules() {
  static constexpr const ScheduleRow* kRows[] = {&kConstant, &kCosine, &kMultistep};
  return kRows;
}

Value learning_rate(Builder& b, Value step, double lr, const ir::Selection& selection,
                    const Timeline& timeline) {
  const ScheduleRow& row = ir::find_row(schedules(), "schedule.name", selection.name);
  const Attributes values = ir::settle(row.schema, selection.values, "schedule");
  Value s = b.cast(step, DType::f64);
  const Value rate = row.rate(b, s, lr, values, timeline);
  const std::int64_t warmup_steps = timeline.steps(values.get_double("warmup_epochs"));
  if (warmup_steps == 0) return rate;
  const auto warmup = static_cast<double>(warmup_steps);
  const double warmup_lr = values.get_double("warmup_lr");
  Value ramp = b.add(b.mul(s, (lr - warmup_lr) / warmup), warmup_lr);
  return b.select(b.compare("lt", s, b.constant_like(s, warmup)), ramp, rate);
}

}  // namespace rewire::programs
