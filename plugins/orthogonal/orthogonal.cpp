// The orthogonal residual update adds only the part of the branch f that is orthogonal to the stream x,
//   x' = x + f - s x,   s = <x, f> / (|x|^2 + eps),
// so that the branch turns the stream and the shortcut sets the stream's length. x is
// the raw stream, not the branch's normed input. mode=feature: one s per token, reduced
// over the channels. mode=global: one s per sample, over all axes but the batch. Both
// sums and s are at least f32, whatever the stream's dtype. x = 0 gives s = 0.
//
// probability: in training, each block is orthogonal with this probability,
// else it adds f unchanged. There is one draw per block and step, for all
// joins of the block and the whole batch. Evaluation takes the likelier case.
#include <map>
#include <rewire_plugin.hpp>
#include <utility>

namespace {

using namespace rewire::plugin;

/// f32 can hold this and the gradient's divisor. An eps that f32 rounds to zero would give 0 / 0 for x = 0.
constexpr double kLeastEps = 1e-30;

constexpr rewire_parameter kParameters[] = {
    enum_parameter("mode", "feature", "feature|global",
                   "what is projected; feature: each token; global: each sample as a whole"),
    float_parameter("eps", "1e-6", "epsilon added to |x|^2", at_least(kLeastEps)),
    float_parameter("probability", "1",
                    "probability that a block is orthogonal in a training step; in evaluation blocks are "
                    "orthogonal if it is >= 0.5",
                    between(0, 1)),
};

/// Whether each block is orthogonal in this step: an i1 scalar, which the first join of the block draws.
class Draws {
 public:
  explicit Draws(double probability) : probability_(probability) {}

  const Value& of_block(const Join& join) {
    Value& drawn = by_block_[{join.scope, join.block}];
    if (!drawn) {
      const Type number{DType::f32, {}};
      const Value u = join.rng_stream("draw", number);
      const Value now = compare("lt", u, join.constant(probability_, number));
      const Value likelier = join.constant(probability_ >= 0.5 ? 1 : 0, {DType::i1, {}});
      drawn = select(join.is_training(), now, likelier);
    }
    return drawn;
  }

 private:
  double probability_;
  std::map<std::pair<std::string, std::int64_t>, Value> by_block_;
};

void rewrite(const Rewrite& call) {
  const bool global = call.get_text("mode") == "global";
  const double eps = call.get_float("eps"), probability = call.get_float("probability");
  Draws draws(probability);
  for (const Join& join : call.joins()) {
    if (probability == 0) {
      join.set_branch(join.branch);
      continue;
    }
    const Ints axes = global ? join.axes_within_sample() : Ints{join.channel_axis};
    const Value x = at_least_f32(join.stream);
    const Value f = at_least_f32(join.branch);
    const Value norm = sum(x * x, axes) + eps;
    Value s = sum(x * f, axes) / norm;
    if (probability < 1) {
      const Value drawn = draws.of_block(join);
      s = select(drawn, s, constant_like(s, 0));
    }
    join.set_branch(join.branch - cast(s, join.stream.dtype()) * join.stream);
  }
}

}  // namespace

REWIRE_PLUGIN("orthogonal", "1.1.0", "adds only the part of the branch that is orthogonal to the stream",
              kParameters, rewrite)
