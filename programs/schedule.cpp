// The built-in schedules. Each has a file of its own and a row
// here. Scalars are f64, so that a long run's rate is exact.
#include "programs/schedule.h"

#include <cmath>
#include <numbers>

#include "ir/opcodes.h"

namespace rewire::programs {

using ir::Value;

extern const ScheduleRow kConstantSchedule, kCosineSchedule, kMultistepSchedule, kWsdSchedule;

std::span<const ScheduleRow* const> schedules() {
  static constexpr const ScheduleRow* kRows[] = {
      &kConstantSchedule,
      &kCosineSchedule,
      &kMultistepSchedule,
      &kWsdSchedule,
  };
  return kRows;
}

std::int64_t Timeline::steps(double epochs) const {
  return static_cast<std::int64_t>(std::llround(epochs * steps_per_epoch));
}

double Timeline::scheduled(std::int64_t step) const {
  return change ? change->place + static_cast<double>(step - change->step) * change->rate
                : static_cast<double>(step);
}

Value scheduled_step(ir::Builder& b, Value step, const Timeline& timeline) {
  const Value s = b.cast(step, ir::DType::f64);
  if (!timeline.change) return s;
  const auto& [first, place, rate] = *timeline.change;
  return b.add(b.mul(b.sub(s, static_cast<double>(first)), rate), place);
}

ir::Schema with_warmup(ir::Schema own) {
  ir::Schema schema = {
      ir::float_parameter(
          "warmup_epochs", 0,
          "epochs of warm-up, in which the rate rises linearly from warmup_lr to optimizer.lr")
          .at_least(0)
          .at_most(kMostEpochs),
      ir::float_parameter("warmup_lr", 0, "learning rate of the first warm-up step").at_least(0)};
  schema.insert(schema.end(), own.begin(), own.end());
  return schema;
}

Value half_cosine(ir::Builder& b, Value s, double from, double to, const Span& span) {
  Value done = b.div(b.sub(s, span.begin), span.length);
  done = b.binary(ir::Opcode::minimum, done, b.constant_like(done, 1));
  Value wave = b.add(b.unary(ir::Opcode::cos, b.mul(done, std::numbers::pi)), 1);
  return b.add(b.mul(wave, (from - to) / 2), to);
}

Value learning_rate(ir::Builder& b, Value step, double lr, const ir::Selection& selection,
                    const Timeline& timeline) {
  const ScheduleRow& row = ir::find_row(schedules(), "schedule.name", selection.name);
  const ir::Attributes values = ir::settle(row.schema, selection.values, "schedule");
  const Value s = scheduled_step(b, step, timeline);
  const Value rate = row.rate(b, s, lr, values, timeline);
  const std::int64_t warmup_steps = timeline.steps(values.get_double("warmup_epochs"));
  if (warmup_steps == 0) return rate;
  const auto warmup = static_cast<double>(warmup_steps);
  const double warmup_lr = values.get_double("warmup_lr");
  Value ramp = b.add(b.mul(s, (lr - warmup_lr) / warmup), warmup_lr);
  return b.select(b.compare("lt", s, b.constant_like(s, warmup)), ramp, rate);
}

}  // namespace rewire::programs
