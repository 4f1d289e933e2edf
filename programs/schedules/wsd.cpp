#include <cmath>

#include "ir/opcodes.h"
#include "programs/schedule.h"

namespace rewire::programs {
namespace {

using ir::Opcode;
using ir::Value;

/// lr, then with u = min((s - D) / (T - D), 1) for the last steps, from D = T - round(decay T) on:
/// min_lr + (lr - min_lr) f(u), f = 1 - u, 1 - sqrt(u) or (1 + cos(pi u)) / 2.
Value wsd(ir::Builder& b, Value s, double lr, const ir::Attributes& values, const Timeline& timeline) {
  const double min_lr = values.get_double("min_lr");
  const auto total = static_cast<double>(timeline.total_steps);
  const double length = std::round(values.get_double("decay") * total);
  const double begin = total - length;
  if (begin < static_cast<double>(timeline.steps(values.get_double("warmup_epochs")))) {
    user_error(
        "the schedule wsd has {} steps, of which the last {} decay: the warm-up does not end before them; "
        "train longer or warm up less",
        timeline.total_steps, length);
  }
  if (length == 0) return b.constant_like(s, lr);
  const std::string& type = values.get_string("decay_type");
  if (type == "cosine") {
    const Value decayed = half_cosine(b, s, lr, min_lr, {begin, length});
    return b.select(b.compare("lt", s, b.constant_like(s, begin)), b.constant_like(s, lr), decayed);
  }
  const Value beyond = b.binary(Opcode::maximum, b.sub(s, begin), b.constant_like(s, 0));
  const Value u = b.binary(Opcode::minimum, b.div(beyond, length), b.constant_like(s, 1));
  const Value fallen = type == "linear" ? u : b.unary(Opcode::sqrt, u);
  return b.sub(b.constant_like(s, lr), b.mul(fallen, lr - min_lr));
}

}  // namespace

extern const ScheduleRow kWsdSchedule{
    "wsd", "constant, then down to min_lr over the last steps (warm-up, stable, decay)",
    with_warmup({ir::float_parameter("min_lr", 0, "learning rate at the last step").at_least(0),
                 ir::float_parameter("decay", 0.2, "share of the run's steps in which the rate falls")
                     .at_least(0)
                     .at_most(1),
                 ir::enum_parameter("decay_type", {"linear", "cosine", "1-sqrt"},
                                    "how it falls; linear; cosine: half a wave; 1-sqrt: 1 minus the root of "
                                    "the share that is done")}),
    wsd};

}  // namespace rewire::programs
