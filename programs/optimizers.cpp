// The built-in optimizers. Each has a file of its own and a row here. Their shared code is below.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "programs/optimizer.h"
#include "programs/sums.h"

namespace rewire::programs {

using ir::Builder;
using ir::Value;

extern const OptimizerRow kAdamw, kLamb, kLars, kLion, kMuon, kSgd, kSoap;

namespace {

std::vector<const OptimizerRow*>& optimizer_rows() {
  static std::vector<const OptimizerRow*> rows = {
      &kAdamw, &kLamb, &kLars, &kLion, &kMuon, &kSgd, &kSoap,
  };
  return rows;
}

void update(Builder& b, const std::string& name, Value value, Value finite) {
  b.emit_all(ir::Opcode::update, std::vector<Value>{value, finite}, {{"name", name}});
}

std::string state_name(const ChosenOptimizer& chosen, const StateSpec& state, const Trainable& weight) {
  return fmt::format("{}.{}.{}", chosen.name, state.role, weight.name);
}

/// Adds the weight's states to the module, unless it has them, and reads
/// them. `updates` counts the updates that the weight has had. It is empty
/// if no state starts as its weight, or if every such state has started.
std::vector<Value> read_states(Builder& b, const ChosenOptimizer& chosen, const Trainable& weight,
                               Value updates) {
  std::vector<Value> values;
  for (StateSpec& state : chosen.optimizer->states(parameter_of(b, weight))) {
    ir::Parameter p;
    p.name = state_name(chosen, state, weight);
    p.type = std::move(state.type);
    p.init = std::move(state.init);
    p.kind = ir::StateKind::moment;
    p.trainable = p.decay = false;
    Value value = b.param(b.module().add_parameter(std::move(p)).name);
    if (state.starts_as_weight && updates)
      value = b.select(b.compare("eq", updates, b.constant_like(updates, 0)), weight.value, value);
    values.push_back(value);
  }
  return values;
}

void update_states(Builder& b, const ChosenOptimizer& chosen, const Trainable& weight,
                   const std::vector<Value>& values, Value finite) {
  const std::vector<StateSpec> states = chosen.optimizer->states(parameter_of(b, weight));
  if (values.size() != states.size())
    internal_error("the optimizer {} gives {} of {} states", chosen.name, values.size(), states.size());
  for (std::size_t i = 0; i < states.size(); ++i)
    update(b, state_name(chosen, states[i], weight), values[i], finite);
}

}  // namespace

std::vector<std::vector<Value>> Optimizer::refresh(Builder&, const std::vector<Trainable>&,
                                                   const std::vector<std::vector<Value>>& states, bool) {
  return states;
}

std::span<const OptimizerRow* const> optimizers() {
  return optimizer_rows();
}

void add_optimizer(const OptimizerRow& row) {
  optimizer_rows().push_back(&row);
}

ir::Schema with_common_parameters(ir::Schema own, double lr, double weight_decay) {
  ir::Schema schema = {
      ir::float_parameter("lr", lr, "peak learning rate; the schedule scales it").at_least(0)};
  schema.insert(schema.end(), own.begin(), own.end());
  schema.push_back(ir::float_parameter("weight_decay", weight_decay,
                                       "weight decay of the weights that optimizer.decay selects")
                       .at_least(0));
  schema.push_back(ir::float_parameter(
                       "weight_decay_end", -1,
                       "weight decay at the end of the run, reached along half a cosine; below 0: constant")
                       .at_least(-1));
  schema.push_back(
      ir::enum_parameter("decay", {"matrices", "no_1d", "all"},
                         "weights with weight decay; matrices: all but norms, biases, class and register "
                         "tokens, position embeddings; no_1d: all but norms and biases; all: all"));
  schema.push_back(
      ir::float_parameter("layer_decay", 1,
                          "learning rate of a layer divided by that of the next layer; the last layer has lr")
          .above(0)
          .at_most(1));
  return schema;
}

namespace {

/// no_1d is the rule of the public code of DINO, and of MAE's
/// pretraining: all weights decay but biases and those of one axis.
bool is_decayed(const ir::Parameter& weight, const std::string& rule) {
  if (rule == "no_1d") return weight.type.rank() > 1 && !weight.name.ends_with(".bias");
  return rule == "all" || weight.decay;
}

}  // namespace

WeightSettings settings_of(const ir::Parameter& weight, const ir::Attributes& values) {
  const bool decays = is_decayed(weight, values.get_string("decay"));
  return {weight.hint.lr_scale.value_or(1),
          weight.hint.weight_decay.value_or(decays ? values.get_double("weight_decay") : 0),
          decays && !weight.hint.weight_decay && values.get_double("weight_decay_end") >= 0};
}

Betas betas_of(const ir::Parameter& weight, const ir::Attributes& values) {
  return {weight.hint.beta1.value_or(values.get_double("beta1")),
          weight.hint.beta2.value_or(values.get_double("beta2"))};
}

const ir::Parameter& parameter_of(Builder& b, const Trainable& weight) {
  return *b.module().find_parameter(weight.name);
}

void apply_layer_decay(ir::Module& module, const ir::Attributes& values) {
  const double decay = values.get_double("layer_decay");
  if (decay == 1) return;
  std::int32_t last = -1;
  for (const ir::Parameter& parameter : module.parameters)
    if (parameter.trainable) last = std::max(last, parameter.layer);
  if (last < 0) {
    user_error(
        "optimizer.layer_decay={}: the parameters of the network '{}' have no layer; set it to 1, or give "
        "them the attribute `layer` in the module's file",
        decay, module.name);
  }
  for (ir::Parameter& parameter : module.parameters) {
    if (!parameter.trainable || parameter.layer < 0) continue;
    const double scale =
        std::max(std::pow(decay, last - parameter.layer), std::numeric_limits<double>::min());
    parameter.hint.lr_scale = parameter.hint.lr_scale.value_or(1) * scale;
  }
}

Value scheduled_decay(Builder& b, const ir::Attributes& values, Value step, const Timeline& timeline) {
  const double end = values.get_double("weight_decay_end");
  if (end < 0) return {};
  if (timeline.total_steps == 0)
    user_error("optimizer.weight_decay_end={}: the run has no end at which the decay could reach it", end);
  return half_cosine(b, scheduled_step(b, step, timeline), values.get_double("weight_decay"), end,
                     {0, static_cast<double>(timeline.total_steps)});
}

Value norm_of(Builder& b, Value x) {
  return b.unary(ir::Opcode::sqrt, sum_all(b, b.mul(x, x)));
}

Value trust_ratio(Builder& b, Value weight, Value step) {
  const Value zero = b.constant_like(weight, 0), one = b.constant_like(weight, 1);
  const Value ratio = b.select(b.compare("gt", step, zero), b.div(weight, step), one);
  return b.select(b.compare("gt", weight, zero), ratio, one);
}

void SharedScalars::begin(const StepScalars& step) {
  step_ = step;
}

Value SharedScalars::exact_rate(Builder& b, const WeightSettings& of_weight) const {
  return of_weight.lr_scale == 1 ? step_.lr : b.mul(step_.lr, of_weight.lr_scale);
}

Value SharedScalars::rate(Builder& b, const WeightSettings& of_weight) {
  Value& rate = rates_[of_weight.lr_scale];
  if (!rate) rate = b.cast(exact_rate(b, of_weight), ir::DType::f32);
  return rate;
}

Value SharedScalars::kept(Builder& b, const WeightSettings& of_weight) {
  Value& kept = kept_[of_weight];
  if (kept) return kept;
  const Value lost = decayed(b, exact_rate(b, of_weight), of_weight);
  return kept = b.cast(b.sub(b.constant_like(lost, 1), lost), ir::DType::f32);
}

Value SharedScalars::decayed(Builder& b, Value x, const WeightSettings& of_weight) {
  if (!of_weight.scheduled) return b.mul(x, of_weight.weight_decay);
  Value& decay = decay_[b.type(x).dtype];
  if (!decay) decay = b.cast(step_.weight_decay, b.type(x).dtype);
  return b.mul(x, decay);
}

Value SharedScalars::updates(const Trainable& weight) const {
  return weight.updates ? weight.updates : step_.updates;
}

Value SharedScalars::count(Builder& b, const Trainable& weight) {
  const Value before = updates(weight);
  Value& count = counts_[before.id];
  if (!count) count = b.add(b.cast(before, ir::DType::f64), 1);
  return count;
}

Value SharedScalars::correction(Builder& b, Value t, double beta) {
  Value& correction = corrections_[{t.id, beta}];
  if (!correction)
    correction = b.sub(b.constant_like(t, 1), b.binary(ir::Opcode::pow, b.constant_like(t, beta), t));
  return correction;
}

ChosenOptimizer::ChosenOptimizer(const ir::Selection& selection) : name(selection.name) {
  const OptimizerRow& row = ir::find_row(optimizers(), "optimizer.name", name);
  values = ir::settle(row.schema, selection.values, "optimizer");
  optimizer = row.make(values);
}

Value emit_training_point(Builder& b, const ChosenOptimizer& chosen, const Trainable& weight) {
  b.set_location("optimizer." + weight.name);
  return chosen.optimizer->training_point(b, weight, read_states(b, chosen, weight, weight.updates));
}

std::vector<Value> emit_updates(Builder& b, const ChosenOptimizer& chosen,
                                const std::vector<Trainable>& weights, const StepScalars& step,
                                Value finite) {
  std::vector<Value> next;
  chosen.optimizer->begin(b, weights, step);
  for (const Trainable& weight : weights) {
    if (!weight.is_own) {
      next.emplace_back();
      continue;
    }
    b.set_location("optimizer." + weight.name);
    const Value updates = weight.updates ? weight.updates : step.updates;
    const Updated updated = chosen.optimizer->update(b, weight, read_states(b, chosen, weight, updates));
    Value value = weight.after ? weight.after(updated.weight) : updated.weight;
    Value predicate = finite;
    if (weight.moves) {
      predicate = b.binary(ir::Opcode::logical_and, finite, weight.moves);
      value = b.select(weight.moves, value, weight.value);
    }
    next.push_back(value);
    update(b, weight.name, value, predicate);
    update_states(b, chosen, weight, updated.states, predicate);
  }
  return next;
}

Value emit_refresh(Builder& b, const ChosenOptimizer& chosen, const std::vector<Trainable>& weights,
                   bool first, Value finite, const std::map<std::string, Value, std::less<>>& updates) {
  std::vector<std::vector<Value>> states;
  for (const Trainable& weight : weights) {
    const auto of_weight = updates.find(weight.name);
    states.push_back(
        read_states(b, chosen, weight, of_weight == updates.end() ? Value{} : of_weight->second));
  }
  b.set_location("refresh");
  const std::vector<std::vector<Value>> next = chosen.optimizer->refresh(b, weights, states, first);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    b.set_location("refresh." + weights[i].name);
    for (const Value state : next.at(i)) {
      if (!ir::is_float(b.type(state).dtype)) continue;
      // A sum of squares is finite only if all values are finite and small enough to be used.
      const Value sum = sum_all(b, b.mul(state, state));
      finite = b.binary(ir::Opcode::logical_and, finite, b.unary(ir::Opcode::isfinite, sum));
    }
  }
  for (std::size_t i = 0; i < weights.size(); ++i) update_states(b, chosen, weights[i], next[i], finite);
  return finite;
}

}  // namespace rewire::programs
