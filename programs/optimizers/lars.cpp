// LARS (You et al., Large Batch Training of Convolutional Networks, 2017) in the form of MoCo v3 and MAE:
//   d = g + wd w,  q = c |w| / |d| where both norms are > 0, else 1,  u' = mu u + q d,  w' = w - lr u'
// A weight of fewer than two axes has q = 1. It does not decay, unless its hint says so.
#include "programs/optimizer.h"

namespace rewire::programs {

using ir::Builder;
using ir::Value;

namespace {

class Lars : public Optimizer {
 public:
  explicit Lars(const ir::Attributes& values) : values_(values) {}

  std::vector<StateSpec> states(const ir::Parameter& weight) const override {
    return {{"momentum", weight.type}};
  }

  void begin(Builder& b, const std::vector<Trainable>& weights, const StepScalars& step) override {
    scalars_.begin(step);
    for (const Trainable& weight : weights) scalars_.rate(b, settings(b, weight));
  }

  Updated update(Builder& b, const Trainable& weight, const std::vector<Value>& states) override {
    const WeightSettings s = settings(b, weight);
    Value d = weight.gradient;
    if (s.decays()) d = b.add(d, scalars_.decayed(b, weight.value, s));
    if (b.type(weight.value).rank() > 1) {
      const Value trusted = b.mul(norm_of(b, weight.value), values_.get_double("trust_coefficient"));
      d = b.mul(d, trust_ratio(b, trusted, norm_of(b, d)));
    }
    const Value u = b.add(b.mul(states[0], values_.get_double("momentum")), d);
    return {b.sub(weight.value, b.mul(u, scalars_.rate(b, s))), {u}};
  }

 private:
  WeightSettings settings(Builder& b, const Trainable& weight) const {
    const ir::Parameter& parameter = parameter_of(b, weight);
    WeightSettings s = settings_of(parameter, values_);
    if (parameter.type.rank() < 2 && !parameter.hint.weight_decay) s.weight_decay = 0, s.scheduled = false;
    return s;
  }

  const ir::Attributes values_;
  SharedScalars scalars_;
};

}  // namespace

extern const OptimizerRow kLars{
    "lars", "momentum, with each matrix's rate scaled by its norm",
    with_common_parameters(
        {ir::float_parameter("momentum", 0.9, "decay of the momentum").at_least(0).at_most(1),
         ir::float_parameter("trust_coefficient", 1e-3,
                             "length of a step divided by the length of the weight, at a learning rate of 1")
             .above(0)},
        0.1, 0),
    [](const ir::Attributes& values) -> std::unique_ptr<Optimizer> {
      return std::make_unique<Lars>(values);
    }};

}  // namespace rewire::programs
