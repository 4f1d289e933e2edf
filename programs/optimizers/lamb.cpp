// LAMB (You et al., Large Batch Optimization for Deep Learning, ICLR 2020) in timm's form. t is the number
// of the weight's updates, including this one:
//   m' = b1 m + (1 - b1) g,  v' = b2 v + (1 - b2) g^2
//   d = m' / (1 - b1^t) / (sqrt(v') / sqrt(1 - b2^t) + eps) + wd w
//   w' = w - lr q d,  q = |w| / |d| where both norms are > 0, else 1
// A weight that does not decay has q = 1, unless always_adapt is set. timm also limits the gradients' norm;
// here, the recipe's train.clip_norm does that.
#include "ir/opcodes.h"
#include "programs/optimizer.h"

namespace rewire::programs {

using ir::Builder;
using ir::DType;
using ir::Opcode;
using ir::Value;

namespace {

class Lamb : public Optimizer {
 public:
  explicit Lamb(const ir::Attributes& values) : values_(values) {}

  std::vector<StateSpec> states(const ir::Parameter& weight) const override {
    return {{"exp_avg", weight.type}, {"exp_avg_sq", weight.type}};
  }

  void begin(Builder& b, const std::vector<Trainable>& weights, const StepScalars& step) override {
    scalars_.begin(step);
    for (const Trainable& weight : weights) {
      const ir::Parameter& parameter = parameter_of(b, weight);
      scalars_.rate(b, settings_of(parameter, values_));
      shares(b, weight, betas_of(parameter, values_));
    }
  }

  Updated update(Builder& b, const Trainable& weight, const std::vector<Value>& states) override {
    const ir::Parameter& parameter = parameter_of(b, weight);
    const WeightSettings s = settings_of(parameter, values_);
    const Betas betas = betas_of(parameter, values_);
    const auto [mean, root] = shares(b, weight, betas);
    const Value g = weight.gradient;
    const Value m = b.add(b.mul(states[0], betas.beta1), b.mul(g, 1 - betas.beta1));
    const Value v = b.add(b.mul(states[1], betas.beta2), b.mul(b.mul(g, g), 1 - betas.beta2));
    const Value size = b.add(b.mul(b.unary(Opcode::sqrt, v), root), values_.get_double("eps"));
    Value d = b.div(b.mul(m, mean), size);
    if (s.decays()) d = b.add(d, scalars_.decayed(b, weight.value, s));
    Value rate = scalars_.rate(b, s);
    if (s.decays() || values_.get_bool("always_adapt"))
      rate = b.mul(rate, trust_ratio(b, norm_of(b, weight.value), norm_of(b, d)));
    return {b.sub(weight.value, b.mul(d, rate)), {m, v}};
  }

 private:
  struct Shares {
    Value mean, root;  // 1 / (1 - b1^t), 1 / sqrt(1 - b2^t)
  };

  const Shares& shares(Builder& b, const Trainable& weight, const Betas& betas) {
    const Value t = scalars_.count(b, weight);
    Shares& found = shares_[{t.id, betas}];
    if (found.mean) return found;
    const Value one = b.constant_like(t, 1);
    found.mean = b.cast(b.div(one, scalars_.correction(b, t, betas.beta1)), DType::f32);
    found.root =
        b.cast(b.div(one, b.unary(Opcode::sqrt, scalars_.correction(b, t, betas.beta2))), DType::f32);
    return found;
  }

  const ir::Attributes values_;
  SharedScalars scalars_;
  std::map<std::pair<std::int32_t, Betas>, Shares> shares_;
};

}  // namespace

extern const OptimizerRow kLamb{
    "lamb", "Adam, with each weight's rate scaled by its norm",
    with_common_parameters(
        {ir::float_parameter("beta1", 0.9, "decay of the gradient's running mean").at_least(0).below(1),
         ir::float_parameter("beta2", 0.999, "decay of the squared gradient's running mean")
             .at_least(0)
             .below(1),
         ir::float_parameter("eps", 1e-6, "epsilon added to the square root").at_least(0),
         ir::bool_parameter("always_adapt", false, "adapt the rate of weights without weight decay too")},
        1e-3, 0.01),
    [](const ir::Attributes& values) -> std::unique_ptr<Optimizer> {
      return std::make_unique<Lamb>(values);
    }};

}  // namespace rewire::programs
