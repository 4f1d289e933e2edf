// AdamW for every weight; adamw_update.cpp has the formula.
#include "programs/adamw_update.h"

namespace rewire::programs {

using ir::Builder;
using ir::Value;

namespace {

class Adamw : public Optimizer {
 public:
  explicit Adamw(const ir::Attributes& values) : values_(values) {}

  std::vector<StateSpec> states(const ir::Parameter& weight) const override {
    return AdamwUpdate::states(weight.type);
  }

  void begin(Builder& b, const std::vector<Trainable>& weights, const StepScalars& step) override {
    scalars_.begin(step);
    for (const Trainable& weight : weights) update_.prepare(b, weight, settings(b, weight));
  }

  Updated update(Builder& b, const Trainable& weight, const std::vector<Value>& states) override {
    return update_.update(b, weight, settings(b, weight), states);
  }

 private:
  AdamwSettings settings(Builder& b, const Trainable& weight) const {
    const ir::Parameter& parameter = parameter_of(b, weight);
    return {settings_of(parameter, values_), betas_of(parameter, values_), values_.get_double("eps")};
  }

  const ir::Attributes values_;
  SharedScalars scalars_;
  AdamwUpdate update_{scalars_};
};

}  // namespace

extern const OptimizerRow kAdamw{
    "adamw", "Adam with decoupled weight decay",
    with_common_parameters(
        {ir::float_parameter("beta1", 0.9, "decay of the gradient's running mean").at_least(0).below(1),
         ir::float_parameter("beta2", 0.999, "decay of the squared gradient's running mean")
             .at_least(0)
             .below(1),
         ir::float_parameter("eps", 1e-8, "epsilon added to the square root").at_least(0)}),
    [](const ir::Attributes& values) -> std::unique_ptr<Optimizer> {
      return std::make_unique<Adamw>(values);
    }};

}  // namespace rewire::programs
