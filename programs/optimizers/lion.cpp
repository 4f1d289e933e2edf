// Lion (Chen et al., Symbolic Discovery of Optimization Algorithms, NeurIPS 2023, Algorithm 2):
//   w' = (1 - lr wd) w - lr sign(b1 m + (1 - b1) g),  m' = b2 m + (1 - b2) g
#include "programs/optimizer.h"

namespace rewire::programs {

using ir::Builder;
using ir::Value;

namespace {

/// Returns 1, 0 or -1.
Value sign_of(Builder& b, Value x) {
  const Value zero = b.constant_like(x, 0), one = b.constant_like(x, 1), minus_one = b.constant_like(x, -1);
  return b.select(b.compare("gt", x, zero), one, b.select(b.compare("lt", x, zero), minus_one, zero));
}

class Lion : public Optimizer {
 public:
  explicit Lion(const ir::Attributes& values) : values_(values) {}

  std::vector<StateSpec> states(const ir::Parameter& weight) const override {
    return {{"exp_avg", weight.type}};
  }

  void begin(Builder& b, const std::vector<Trainable>& weights, const StepScalars& step) override {
    scalars_.begin(step);
    for (const Trainable& weight : weights) {
      const WeightSettings s = settings_of(parameter_of(b, weight), values_);
      scalars_.rate(b, s);
      if (s.decays()) scalars_.kept(b, s);
    }
  }

  Updated update(Builder& b, const Trainable& weight, const std::vector<Value>& states) override {
    const ir::Parameter& parameter = parameter_of(b, weight);
    const WeightSettings s = settings_of(parameter, values_);
    const auto [beta1, beta2] = betas_of(parameter, values_);
    const Value g = weight.gradient, m = states[0];
    const Value direction = sign_of(b, b.add(b.mul(m, beta1), b.mul(g, 1 - beta1)));
    const Value kept = s.decays() ? b.mul(weight.value, scalars_.kept(b, s)) : weight.value;
    return {b.sub(kept, b.mul(direction, scalars_.rate(b, s))),
            {b.add(b.mul(m, beta2), b.mul(g, 1 - beta2))}};
  }

 private:
  const ir::Attributes values_;
  SharedScalars scalars_;
};

}  // namespace

extern const OptimizerRow kLion{
    "lion", "the sign of a running mean of gradients, with decoupled weight decay",
    with_common_parameters(
        {ir::float_parameter("beta1", 0.9, "share of the running mean in a step").at_least(0).below(1),
         ir::float_parameter("beta2", 0.99, "decay of the gradient's running mean").at_least(0).below(1)},
        1e-4, 0),
    [](const ir::Attributes& values) -> std::unique_ptr<Optimizer> {
      return std::make_unique<Lion>(values);
    }};

}  // namespace rewire::programs
