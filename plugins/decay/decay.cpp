// Decayed identity shortcuts: every join scales the stream down
// a little, so that deep layers forget what is only passed on,
//   x' = a_l x + f,   a_l = 1 - (1 - alpha_min) l / (L - 1),   l = 0 ... L-1 over all joins of the scope.
// The first join keeps all of x, the last one alpha_min of it. learnable: each a_l is a trained number that
// starts at 1. variant=both is sqrt(1/2) (x + f), variant=branch is x + sqrt(1/2) f; neither has a schedule.
// If the decay is strong (alpha_min <= 0.7), each branch's last layer starts at zero, so that a block first
// computes a_l x. zero_init overrides this.
#include <cmath>
#include <rewire_plugin.hpp>
#include <vector>

namespace {

using namespace rewire::plugin;

constexpr double kZeroInitBelow = 0.7;

constexpr rewire_parameter kParameters[] = {
    float_parameter("alpha_min", "0.6", "smallest factor of the shortcut, at the last join", between(0, 1)),
    enum_parameter("schedule", "endpoint", "endpoint|paper_literal|per_block|constant",
                   "factor at join l of L; endpoint: evenly from 1 to alpha_min; paper_literal: 1 - (1 - "
                   "alpha_min) l/L; per_block: evenly, one factor a block; constant: alpha_min everywhere"),
    bool_parameter("learnable", "false",
                   "train every factor, starting from 1; alpha_min and schedule are not used"),
    bool_parameter("decay_alpha", "true", "apply weight decay to trained factors"),
    enum_parameter("variant", "shortcut", "shortcut|both|branch",
                   "scaled terms of the join; shortcut: the shortcut, by the factor; both, branch: by "
                   "sqrt(1/2), and alpha_min and schedule are not used"),
    enum_parameter("zero_init", "auto", "auto|on|off",
                   "start each branch's last layer at zero; on, off; auto: if variant=shortcut, factors are "
                   "not learnable and alpha_min <= 0.7"),
};

/// Returns 1 at place 0, `low` at the last of `count` places, and evenly spaced numbers between them.
double evenly(double low, std::int64_t place, std::int64_t count) {
  return count == 1 ? 1 : 1 - (1 - low) * static_cast<double>(place) / static_cast<double>(count - 1);
}

double scheduled(const Rewrite& call, const Join& join) {
  const double low = call.get_float("alpha_min");
  const std::string schedule = call.get_text("schedule");
  if (schedule == "constant") return low;
  if (schedule == "per_block") return evenly(low, join.block, join.block_count);
  if (schedule == "endpoint") return evenly(low, join.join_index, join.join_count);
  return 1 - (1 - low) * static_cast<double>(join.join_index) / static_cast<double>(join.join_count);
}

/// Returns the trained alpha, the factor of the stream.
Value learned(const Rewrite& call, const Join& join) {
  const Group group = call.get_bool("decay_alpha") ? Group::decay : Group::no_decay;
  return join.add_weight("alpha", {1}, Init::ones(), group);
}

void rewrite(const Rewrite& call) {
  const std::string variant = call.get_text("variant");
  const bool learnable = call.get_bool("learnable");
  if (learnable && variant != "shortcut") {
    throw Error("learnable needs variant=shortcut: the factors of variant=" + variant + " are fixed");
  }
  for (const Join& join : call.joins()) {
    if (call.get_text("zero_init") == "on" && join.last_layer().empty()) {
      throw Error(join.name +
                  " has no last layer that zero_init=on could set to zero: use zero_init=auto or off, or "
                  "choose other joins by sites= or layers=");
    }
    if (variant == "shortcut") {
      join.set_shortcut(learnable ? join.stream * learned(call, join) : join.stream * scheduled(call, join));
    } else {
      if (variant == "both") join.set_shortcut(join.stream * std::sqrt(0.5));
      join.set_branch(join.branch * std::sqrt(0.5));
    }
  }
}

bool starts_at_zero(const Initialise& call) {
  const std::string zero_init = call.get_text("zero_init");
  if (zero_init != "auto") return zero_init == "on";
  return call.get_text("variant") == "shortcut" && !call.get_bool("learnable") &&
         call.get_float("alpha_min") <= kZeroInitBelow;
}

void initialise(const Initialise& call) {
  if (!starts_at_zero(call)) return;
  for (const Join& join : call.joins()) {
    const std::vector<Weight> weights = join.last_layer();
    if (weights.empty()) {
      call.log(REWIRE_LOG_WARNING,
               join.name + " has no last layer to start at zero: its weights are unchanged");
    }
    for (const Weight& weight : weights) call.write(weight, std::vector<double>(weight.elements(), 0.0));
  }
}

}  // namespace

REWIRE_PLUGIN("decay", "1.0.0", "scales the shortcut down at every join, more in deeper blocks", kParameters,
              rewrite, initialise)
