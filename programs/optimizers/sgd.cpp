// SGD with momentum (PyTorch's form, dampening 0; the buffer starts at 0, so the first step sets it to g):
//   g += wd w,  u' = mu u + g,  w' = w - lr (nesterov ? g + mu u' : u')
#include "programs/optimizer.h"

namespace rewire::programs {

using ir::Builder;
using ir::Value;

namespace {

class Sgd : public Optimizer {
 public:
  explicit Sgd(const ir::Attributes& values) : values_(values), momentum_(values.get_double("momentum")) {
    if (values.get_bool("nesterov") && momentum_ == 0)
      user_error("optimizer.nesterov needs momentum; set optimizer.momentum or drop nesterov");
  }

  std::vector<StateSpec> states(const ir::Parameter& weight) const override {
    return momentum_ == 0 ? std::vector<StateSpec>{} : std::vector<StateSpec>{{"momentum", weight.type}};
  }

  void begin(Builder& b, const std::vector<Trainable>& weights, const StepScalars& step) override {
    scalars_.begin(step);
    for (const Trainable& weight : weights) scalars_.rate(b, settings_of(parameter_of(b, weight), values_));
  }

  Updated update(Builder& b, const Trainable& weight, const std::vector<Value>& states) override {
    const WeightSettings s = settings_of(parameter_of(b, weight), values_);
    Value g = weight.gradient;
    if (s.decays()) g = b.add(g, scalars_.decayed(b, weight.value, s));
    Value direction = g;
    std::vector<Value> next;
    if (!states.empty()) {
      next = {b.add(b.mul(states[0], momentum_), g)};
      direction = values_.get_bool("nesterov") ? b.add(g, b.mul(next[0], momentum_)) : next[0];
    }
    return {b.sub(weight.value, b.mul(direction, scalars_.rate(b, s))), next};
  }

 private:
  const ir::Attributes values_;
  const double momentum_;
  SharedScalars scalars_;
};

}  // namespace

extern const OptimizerRow kSgd{
    "sgd", "gradient descent with momentum",
    [] {
      ir::Schema schema = with_common_parameters({});
      schema.push_back(ir::float_parameter("momentum", 0.9, "decay of the momentum").at_least(0).at_most(1));
      schema.push_back(ir::bool_parameter("nesterov", false, "use Nesterov momentum"));
      return schema;
    }(),
    [](const ir::Attributes& values) -> std::unique_ptr<Optimizer> { return std::make_unique<Sgd>(values); }};

}  // namespace rewire::programs
