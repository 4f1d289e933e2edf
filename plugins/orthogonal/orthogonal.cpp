// The orthogonal residual update: only the part of the branch f that is orthogonal to the stream x is added,
//   x' = x + f - s x,   s = <x, f> / (|x|^2 + eps),
// so that a branch turns the stream and leaves its length to the shortcut. x is the raw stream, not the
// branch's normed input. mode=feature: one s a token, reduced over the channels; mode=global: one s a sample,
// over all axes but the batch. Both sums and s are at least f32 whatever the stream's dtype; x = 0 gives s =
// 0.
#include <rewire_plugin.hpp>

namespace {

using namespace rewire::plugin;

constexpr rewire_parameter kParameters[] = {
    enum_parameter("mode", "feature", "feature|global", "project each token, or each sample as a whole"),
    float_parameter("eps", "1e-6", "added to |x|^2", above(0)),
};

void rewrite(const Rewrite& call) {
  const bool global = call.get_text("mode") == "global";
  const double eps = call.get_float("eps");
  for (const Join& join : call.joins()) {
    const Ints axes = global ? join.axes_within_sample() : Ints{join.channel_axis};
    const Value x = at_least_f32(join.stream);
    const Value f = at_least_f32(join.branch);
    const Value s = sum(x * f, axes) / (sum(x * x, axes) + eps);
    join.set_branch(join.branch - cast(s, join.stream.dtype()) * join.stream);
  }
}

}  // namespace

REWIRE_PLUGIN("orthogonal", "1.0.0", "adds only the part of the branch that is orthogonal to the stream",
              kParameters, rewrite)
