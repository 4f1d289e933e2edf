// The residents: an optimizer is its file and a row here. What they share stands below.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/error.h"
#include "programs/optimizer.h"
#include "programs/sums.h"

namespace rewire::programs {

using ir::Builder;
using ir::Value;

extern const OptimizerRow kAdamw, kSgd;

namespace {

std::vector<const OptimizerRow*>& optimizer_rows() {
  static std::vector<const OptimizerRow*> rows = {
      &kAdamw,
      &kSgd,
  };
  return rows;
}

void update(Builder& b, const std::string& name, Value value, Value finite) {
  b.emit_all(ir::Opcode::update, std::vector<Value>{value, finite}, {{"name", name}});
}

std::string state_name(const ChosenOptimizer& chosen, const StateSpec& state, const Trainable& weight) {
  return fmt::format("{}.{}.{}", chosen.name, state.role, weight.name);
}

/// Adds them to the module, where it has not got them, and reads them.
std::vector<Value> read_states(Builder& b, const ChosenOptimizer& chosen, const Trainable& weight) {
  std::vector<Value> values;
  for (StateSpec& state : chosen.optimizer->states(b.type(weight.value))) {
    ir::Parameter p;
    p.name = state_name(chosen, state, weight);
    p.type = std::move(state.type);
    p.init = std::move(state.init);
    p.kind = ir::StateKind::moment;
    p.trainable = p.decay = false;
    values.push_back(b.param(b.module().add_parameter(std::move(p)).name));
  }
  return values;
}

void update_states(Builder& b, const ChosenOptimizer& chosen, const Trainable& weight,
                   const std::vector<Value>& values, Value finite) {
  const std::vector<StateSpec> states = chosen.optimizer->states(b.type(weight.value));
  if (values.size() != states.size())
    internal_error("the optimizer {} gives {} of {} states", chosen.name, values.size(), states.size());
  for (std::size_t i = 0; i < states.size(); ++i)
    update(b, state_name(chosen, states[i], weight), values[i], finite);
}

}  // namespace

std::vector<Value> Optimizer::refresh(Builder&, const Trainable&, const std::vector<Value>& states) {
  return states;
}

std::span<const OptimizerRow* const> optimizers() {
  return optimizer_rows();
}

void add_optimizer(const OptimizerRow& row) {
  optimizer_rows().push_back(&row);
}

ir::Schema with_common_parameters(ir::Schema own) {
  ir::Schema schema = {ir::float_parameter("lr", 1e-3, "learning rate, before the schedule").at_least(0)};
  schema.insert(schema.end(), own.begin(), own.end());
  schema.push_back(
      ir::float_parameter("weight_decay", 0.05, "of the weights that `decay` names").at_least(0));
  schema.push_back(ir::enum_parameter("decay", {"matrices", "all"},
                                      "matrices: not of norms, biases, cls_token, reg_token and pos_embed"));
  schema.push_back(ir::float_parameter("layer_decay", 1,
                                       "each layer's rate over that of the layer behind it; the last has lr")
                       .above(0)
                       .at_most(1));
  return schema;
}

WeightSettings settings_of(const ir::Parameter& weight, const ir::Attributes& values) {
  const bool decays = values.get_string("decay") == "all" || weight.decay;
  return {weight.hint.lr_scale.value_or(1),
          weight.hint.weight_decay.value_or(decays ? values.get_double("weight_decay") : 0)};
}

void apply_layer_decay(ir::Module& module, const ir::Attributes& values) {
  const double decay = values.get_double("layer_decay");
  if (decay == 1) return;
  std::int32_t last = -1;
  for (const ir::Parameter& parameter : module.parameters)
    if (parameter.trainable) last = std::max(last, parameter.layer);
  if (last < 0) {
    user_error(
        "optimizer.layer_decay={}: the network '{}' does not say which layer its parameters are of; set it "
        "to 1, "
        "or give them the attribute `layer` in the module's file",
        decay, module.name);
  }
  for (ir::Parameter& parameter : module.parameters) {
    if (!parameter.trainable || parameter.layer < 0) continue;
    const double scale =
        std::max(std::pow(decay, last - parameter.layer), std::numeric_limits<double>::min());
    parameter.hint.lr_scale = parameter.hint.lr_scale.value_or(1) * scale;
  }
}

Value scaled(Builder& b, Value lr, double scale) {
  return scale == 1 ? lr : b.mul(lr, scale);
}

ChosenOptimizer::ChosenOptimizer(const ir::Selection& selection) : name(selection.name) {
  const OptimizerRow& row = ir::find_row(optimizers(), "optimizer.name", name);
  values = ir::settle(row.schema, selection.values, "optimizer");
  optimizer = row.make(values);
}

std::vector<Value> emit_updates(Builder& b, const ChosenOptimizer& chosen,
                                const std::vector<Trainable>& weights, Value lr, Value step, Value finite) {
  std::vector<Value> next;
  chosen.optimizer->begin(b, weights, lr, step);
  for (const Trainable& weight : weights) {
    b.set_location("optimizer." + weight.name);
    const Updated updated = chosen.optimizer->update(b, weight, read_states(b, chosen, weight));
    next.push_back(weight.after ? weight.after(updated.weight) : updated.weight);
    update(b, weight.name, next.back(), finite);
    update_states(b, chosen, weight, updated.states, finite);
  }
  return next;
}

Value emit_refresh(Builder& b, const ChosenOptimizer& chosen, const std::vector<Trainable>& weights,
                   Value finite) {
  std::vector<std::vector<Value>> next;
  for (const Trainable& weight : weights) {
    b.set_location("refresh." + weight.name);
    next.push_back(chosen.optimizer->refresh(b, weight, read_states(b, chosen, weight)));
    for (const Value state : next.back()) {
      if (!ir::is_float(b.type(state).dtype)) continue;
      // A sum of squares is finite where all of them are, and they are not too large to be used.
      const Value sum = sum_all(b, b.mul(state, state));
      finite = b.binary(ir::Opcode::logical_and, finite, b.unary(ir::Opcode::isfinite, sum));
    }
  }
  for (std::size_t i = 0; i < weights.size(); ++i) update_states(b, chosen, weights[i], next[i], finite);
  return finite;
}

}  // namespace rewire::programs
