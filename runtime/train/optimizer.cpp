// AdamW and SGD with momentum. Scalars that all parameters share are computed once, in f64, then cast.
#include "runtime/train/optimizer.h"

#include <algorithm>
#include <limits>
#include <map>

#include "ir/error.h"

namespace rewire::runtime {
namespace {

using ir::Builder;
using ir::DType;
using ir::Opcode;
using ir::Value;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void check_range(std::string_view key, double value, double high, std::string_view interval) {
  if (!(value >= 0 && value < high)) {
    user_error("optimizer.{} is {}; it must lie in {}", key, value, interval);
  }
}

void update(Builder& b, const std::string& name, Value value, Value finite) {
  b.emit_all(Opcode::update, std::vector<Value>{value, finite}, {{"name", name}});
}

bool decays(Builder& b, const Trainable& w, const OptimizerOptions& o) {
  return o.weight_decay != 0 && (o.decay == "all" || b.module().find_parameter(w.name)->decay);
}

void adamw(Builder& b, const std::vector<Trainable>& trainables, Value lr, Value step, Value finite,
           const OptimizerOptions& o) {
  const Value one = b.constant_like(lr, 1);
  const Value decay = b.cast(b.sub(one, b.mul(lr, o.weight_decay)), DType::f32);
  struct Corrected {
    Value rate, scale;  // lr / (1 - b1^t), 1 / sqrt(1 - b2^t)
  };
  std::map<std::int32_t, Corrected> by_updates;
  const auto corrected = [&](Value updates) -> const Corrected& {
    const auto found = by_updates.find(updates.id);
    if (found != by_updates.end()) return found->second;
    const Value t = b.add(b.cast(updates, DType::f64), 1);
    const auto correction = [&](double beta) {  // 1 - beta^t
      return b.sub(b.constant_like(t, 1), b.binary(Opcode::pow, b.constant_like(t, beta), t));
    };
    const Value rate = b.cast(b.div(lr, correction(o.beta1)), DType::f32);
    const Value scale = b.cast(b.div(one, b.unary(Opcode::sqrt, correction(o.beta2))), DType::f32);
    return by_updates.emplace(updates.id, Corrected{rate, scale}).first->second;
  };
  corrected(step);
  for (const Trainable& w : trainables) {
    if (w.updates) corrected(w.updates);
  }
  for (const Trainable& w : trainables) {
    const auto& [rate, scale] = corrected(w.updates ? w.updates : step);
    b.set_location("optimizer." + w.name);
    Value m = moment(b, "adamw.exp_avg", w);
    Value v = moment(b, "adamw.exp_avg_sq", w);
    m = b.add(b.mul(m, o.beta1), b.mul(w.gradient, 1 - o.beta1));
    v = b.add(b.mul(v, o.beta2), b.mul(b.mul(w.gradient, w.gradient), 1 - o.beta2));
    Value denominator = b.add(b.mul(b.unary(Opcode::sqrt, v), scale), o.eps);
    Value kept = decays(b, w, o) ? b.mul(w.value, decay) : w.value;
    update(b, w.name, b.sub(kept, b.mul(b.div(m, denominator), rate)), finite);
    update(b, "adamw.exp_avg." + w.name, m, finite);
    update(b, "adamw.exp_avg_sq." + w.name, v, finite);
  }
}

void sgd(Builder& b, const std::vector<Trainable>& trainables, Value lr, Value finite,
         const OptimizerOptions& o) {
  const Value rate = b.cast(lr, DType::f32);
  for (const Trainable& w : trainables) {
    b.set_location("optimizer." + w.name);
    Value g = w.gradient;
    if (decays(b, w, o)) g = b.add(g, b.mul(w.value, o.weight_decay));
    Value direction = g;
    if (o.momentum != 0) {
      Value buffer = b.add(b.mul(moment(b, "sgd.momentum", w), o.momentum), g);
      direction = o.nesterov ? b.add(g, b.mul(buffer, o.momentum)) : buffer;
      update(b, "sgd.momentum." + w.name, buffer, finite);
    }
    update(b, w.name, b.sub(w.value, b.mul(direction, rate)), finite);
  }
}

}  // namespace

Value moment(Builder& b, const std::string& family, const Trainable& w) {
  ir::Parameter p;
  p.name = family + "." + w.name;
  p.type = b.type(w.value);
  p.trainable = p.decay = false;
  p.role = "state";
  return b.param(b.module().add_parameter(std::move(p)).name);
}

bool is_optimizer_state(std::string_view parameter) {
  return parameter.starts_with("optimizer.step") || parameter.starts_with("adamw.") ||
         parameter.starts_with("sgd.");
}

void check_optimizer(const OptimizerOptions& o) {
  if (o.name != "adamw" && o.name != "sgd") {
    user_error("optimizer.name is '{}'; it is adamw or sgd{}", o.name,
               did_you_mean(o.name, {"adamw", "sgd"}));
  }
  if (o.decay != "matrices" && o.decay != "all") {
    user_error("optimizer.decay is '{}'; it is matrices or all{}", o.decay,
               did_you_mean(o.decay, {"matrices", "all"}));
  }
  check_range("lr", o.lr, kInfinity, "[0, inf)");
  check_range("weight_decay", o.weight_decay, kInfinity, "[0, inf)");
  check_range("eps", o.eps, kInfinity, "[0, inf)");
  check_range("beta1", o.beta1, 1, "[0, 1)");
  check_range("beta2", o.beta2, 1, "[0, 1)");
  check_range("momentum", o.momentum, kInfinity, "[0, inf)");
  if (o.nesterov && o.momentum == 0) {
    user_error("optimizer.nesterov needs momentum; set optimizer.momentum or drop nesterov");
  }
}

void emit_optimizer(Builder& b, const std::vector<Trainable>& trainables, Value lr, Value step, Value finite,
                    const OptimizerOptions& options) {
  if (options.name == "adamw") {
    adamw(b, trainables, lr, step, finite, options);
  } else {
    sgd(b, trainables, lr, finite, options);
  }
}

}  // namespace rewire::runtime
