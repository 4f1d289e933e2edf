#include <algorithm>

#include "programs/schedule.h"

namespace rewire::programs {
namespace {

using ir::Value;

/// Returns lr gamma^(number of milestones <= s).
Value multistep(ir::Builder& b, Value s, double lr, const ir::Attributes& values, const Timeline& timeline) {
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

}  // namespace

extern const ScheduleRow kMultistepSchedule{
    "multistep", "multiplied by gamma at each milestone",
    with_warmup(
        {ir::list_parameter("milestones", {}, "epochs, ascending, at which the rate is multiplied by gamma")
             .above(0)
             .at_most(kMostEpochs),
         ir::float_parameter("gamma", 0.1, "factor of the rate at each milestone").at_least(0)}),
    multistep};

}  // namespace rewire::programs
