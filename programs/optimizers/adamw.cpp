// AdamW (Loshchilov & Hutter, ICLR 2019; PyTorch's form), t the weight's updates with this one, bias
// corrections in f64:
//   m' = b1 m + (1 - b1) g,  v' = b2 v + (1 - b2) g^2
//   w' = (1 - lr wd) w - lr / (1 - b1^t) m' / (sqrt(v') / sqrt(1 - b2^t) + eps)
#include <map>
#include <tuple>
#include <utility>

#include "programs/optimizer.h"

namespace rewire::programs {

using ir::Builder;
using ir::DType;
using ir::Opcode;
using ir::Value;

namespace {

struct Settings {
  double lr_scale, weight_decay, beta1, beta2;
};

class Adamw : public Optimizer {
 public:
  explicit Adamw(const ir::Attributes& values) : values_(values) {}

  std::vector<StateSpec> states(const ir::TensorType& weight) const override {
    return {{"exp_avg", weight}, {"exp_avg_sq", weight}};
  }

  void begin(Builder& b, const std::vector<Trainable>& weights, Value lr, Value step) override {
    lr_ = lr;
    step_ = step;
    one_ = b.constant_like(lr, 1);
    for (const Trainable& weight : weights) {
      const Settings s = settings(b, weight);
      if (s.weight_decay != 0) kept_share(b, s);
      corrected(b, weight, s);
    }
  }

  Updated update(Builder& b, const Trainable& weight, const std::vector<Value>& states) override {
    const Settings s = settings(b, weight);
    const auto [rate, scale] = corrected(b, weight, s);
    const Value g = weight.gradient;
    const Value m = b.add(b.mul(states[0], s.beta1), b.mul(g, 1 - s.beta1));
    const Value v = b.add(b.mul(states[1], s.beta2), b.mul(b.mul(g, g), 1 - s.beta2));
    const Value denominator = b.add(b.mul(b.unary(Opcode::sqrt, v), scale), values_.get_double("eps"));
    const Value kept = s.weight_decay != 0 ? b.mul(weight.value, kept_share(b, s)) : weight.value;
    return {b.sub(kept, b.mul(b.div(m, denominator), rate)), {m, v}};
  }

 private:
  struct Corrected {
    Value rate, scale;  // lr / (1 - b1^t), 1 / sqrt(1 - b2^t)
  };

  Settings settings(Builder& b, const Trainable& weight) const {
    const ir::Parameter& parameter = *b.module().find_parameter(weight.name);
    const WeightSettings common = settings_of(parameter, values_);
    return {common.lr_scale, common.weight_decay, parameter.hint.beta1.value_or(values_.get_double("beta1")),
            parameter.hint.beta2.value_or(values_.get_double("beta2"))};
  }

  /// 1 - lr wd
  Value kept_share(Builder& b, const Settings& s) {
    Value& share = kept_shares_[{s.lr_scale, s.weight_decay}];
    if (!share) share = b.cast(b.sub(one_, b.mul(scaled(b, lr_, s.lr_scale), s.weight_decay)), DType::f32);
    return share;
  }

  Corrected corrected(Builder& b, const Trainable& weight, const Settings& s) {
    const Value updates = weight.updates ? weight.updates : step_;
    Corrected& found = corrected_[{updates.id, s.lr_scale, s.beta1, s.beta2}];
    if (found.rate) return found;
    const Value t = b.add(b.cast(updates, DType::f64), 1);
    const auto correction = [&](double beta) {  // 1 - beta^t
      return b.sub(b.constant_like(t, 1), b.binary(Opcode::pow, b.constant_like(t, beta), t));
    };
    found.rate = b.cast(b.div(scaled(b, lr_, s.lr_scale), correction(s.beta1)), DType::f32);
    found.scale = b.cast(b.div(one_, b.unary(Opcode::sqrt, correction(s.beta2))), DType::f32);
    return found;
  }

  const ir::Attributes values_;
  Value lr_, step_, one_;
  std::map<std::pair<double, double>, Value> kept_shares_;
  std::map<std::tuple<std::int32_t, double, double, double>, Corrected> corrected_;
};

}  // namespace

extern const OptimizerRow kAdamw{
    "adamw", "Adam with decoupled weight decay",
    with_common_parameters(
        {ir::float_parameter("beta1", 0.9, "memory of the gradient's mean").at_least(0).below(1),
         ir::float_parameter("beta2", 0.999, "memory of its square's mean").at_least(0).below(1),
         ir::float_parameter("eps", 1e-8, "added to the root of that").at_least(0)}),
    [](const ir::Attributes& values) -> std::unique_ptr<Optimizer> {
      return std::make_unique<Adamw>(values);
    }};

}  // namespace rewire::programs
