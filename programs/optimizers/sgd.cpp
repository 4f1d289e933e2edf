// SGD with momentum (PyTorch's form, dampening 0; the buffer starts at 0, so the first step sets it to g):
//   g += wd w,  u' = mu u + g,  w' = w - lr (nesterov ? g + mu u' : u')
#include <map>

#include "programs/optimizer.h"

namespace rewire::programs {

using ir::Builder;
using ir::DType;
using ir::Value;

namespace {

class Sgd : public Optimizer {
 public:
  explicit Sgd(const ir::Attributes& values) : values_(values), momentum_(values.get_double("momentum")) {
    if (values.get_bool("nesterov") && momentum_ == 0)
      user_error("optimizer.nesterov needs momentum; set optimizer.momentum or drop nesterov");
  }

  std::vector<StateSpec> states(const ir::TensorType& weight) const override {
    return momentum_ == 0 ? std::vector<StateSpec>{} : std::vector<StateSpec>{{"momentum", weight}};
  }

  void begin(Builder& b, const std::vector<Trainable>& weights, Value lr, Value) override {
    for (const Trainable& weight : weights) {
      const double scale = settings(b, weight).lr_scale;
      Value& rate = rates_[scale];
      if (!rate) rate = b.cast(scaled(b, lr, scale), DType::f32);
    }
  }

  Updated update(Builder& b, const Trainable& weight, const std::vector<Value>& states) override {
    const WeightSettings s = settings(b, weight);
    Value g = weight.gradient;
    if (s.weight_decay != 0) g = b.add(g, b.mul(weight.value, s.weight_decay));
    Value direction = g;
    std::vector<Value> next;
    if (!states.empty()) {
      next = {b.add(b.mul(states[0], momentum_), g)};
      direction = values_.get_bool("nesterov") ? b.add(g, b.mul(next[0], momentum_)) : next[0];
    }
    return {b.sub(weight.value, b.mul(direction, rates_.at(s.lr_scale))), next};
  }

 private:
  WeightSettings settings(Builder& b, const Trainable& weight) const {
    return settings_of(*b.module().find_parameter(weight.name), values_);
  }

  const ir::Attributes values_;
  const double momentum_;
  std::map<double, Value> rates_;  // by lr_scale
};

}  // namespace

extern const OptimizerRow kSgd{
    "sgd", "gradient descent with momentum",
    [] {
      ir::Schema schema = with_common_parameters({});
      schema.push_back(
          ir::float_parameter("momentum", 0.9, "memory of past directions").at_least(0).at_most(1));
      schema.push_back(ir::bool_parameter("nesterov", false, "look ahead along the momentum"));
      return schema;
    }(),
    [](const ir::Attributes& values) -> std::unique_ptr<Optimizer> { return std::make_unique<Sgd>(values); }};

}  // namespace rewire::programs
