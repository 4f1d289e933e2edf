// Optimizers. From a weight's gradient an optimizer computes, in IR, the weight's new value and its own
// states. These are the same few pointwise ops for all weights, so that a backend can make one kernel over a
// table of pointers. Each optimizer is one file under optimizers/ and one row of optimizers.cpp.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/registry.h"
#include "programs/schedule.h"

namespace rewire::programs {

/// A trained parameter in a program: name, value and gradient.
struct Trainable {
  std::string name;
  ir::Value value;
  ir::Value gradient;
  ir::Value updates = {};  // i64[], the updates that it has had; none: the optimizer's count
  bool is_own = true;      // false: another process updates it
  ir::Value moves = {};    // i1[], whether this step moves it and its states; none: it does
  /// Maps the optimizer's new value to the weight's; none: the identity.
  std::function<ir::Value(ir::Value)> after = {};
};

/// A state of a weight that lasts between steps: the parameter "<optimizer>.<role>.<weight>".
struct StateSpec {
  std::string role;
  ir::TensorType type;  // any shape
  ir::Init init = {};
  bool starts_as_weight =
      false;  // a state of the weight's type: before the first update it is the weight, whatever `init` says
};

struct Updated {
  ir::Value weight;
  std::vector<ir::Value> states;  // in the order of states()
};

/// Scalars of a step that all weights share.
struct StepScalars {
  ir::Value lr;                 // f64[]
  ir::Value updates;            // i64[], the updates before this one
  ir::Value weight_decay = {};  // f64[] if it follows a schedule; else none
};

/// An optimizer for one program; it may keep values of the program.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual std::vector<StateSpec> states(const ir::Parameter& weight) const = 0;
  /// Emits the scalars that weights share, before the first update().
  virtual void begin(ir::Builder& builder, const std::vector<Trainable>& weights,
                     const StepScalars& step) = 0;
  virtual Updated update(ir::Builder& builder, const Trainable& weight,
                         const std::vector<ir::Value>& states) = 0;

  /// Returns whether training steps take loss and gradients at another point than the weights. Evaluation
  /// and files use the weights. In Schedule-Free (Defazio et al., NeurIPS 2024) the weights are the averages
  /// x.
  virtual bool has_training_point() const { return false; }
  /// Returns the value that training steps read instead of the weight, of its type. It is called before
  /// begin(), and `weight` has no gradient. Forward's own updates, such as batch norms' running statistics,
  /// follow this value; diagnostics and `grad` use the weights.
  virtual ir::Value training_point(ir::Builder&, const Trainable& weight,
                                   const std::vector<ir::Value>& /*states*/) {
    return weight.value;
  }

  /// Returns the period of the refresh programs; 0: there are none. `refresh_first` runs after the first
  /// update of each phase of a run, `refresh` after every period()-th update that follows the run's first.
  virtual std::int64_t period() const { return 0; }
  /// Returns, in these programs, the next states of all weights. `weights` have no gradients.
  virtual std::vector<std::vector<ir::Value>> refresh(ir::Builder& builder,
                                                      const std::vector<Trainable>& weights,
                                                      const std::vector<std::vector<ir::Value>>& states,
                                                      bool first);
};

struct OptimizerRow {
  std::string_view name, doc;
  ir::Schema schema;  // made by with_common_parameters()
  /// Makes the optimizer of settled values. Throws UserError if they conflict.
  std::unique_ptr<Optimizer> (*make)(const ir::Attributes& values);
};

std::span<const OptimizerRow* const> optimizers();
/// Adds an optimizer that is not a resident, for tests. The row must outlive the process.
void add_optimizer(const OptimizerRow& row);

/// Returns lr, then `own`, then weight_decay, weight_decay_end, decay and layer_decay.
ir::Schema with_common_parameters(ir::Schema own, double lr = 1e-3, double weight_decay = 0.05);

/// Learning-rate scale and decay of one weight. Its OptimizerHint (ir/optimizer_hint.h) overrides the
/// recipe.
struct WeightSettings {
  double lr_scale, weight_decay;
  bool scheduled = false;  // the decay is StepScalars::weight_decay instead

  bool decays() const { return scheduled || weight_decay != 0; }
  auto operator<=>(const WeightSettings&) const = default;
};
WeightSettings settings_of(const ir::Parameter& weight, const ir::Attributes& values);

/// The betas of one weight: those of its hint, else the parameters beta1 and beta2 of the optimizer.
struct Betas {
  double beta1, beta2;
  auto operator<=>(const Betas&) const = default;
};
Betas betas_of(const ir::Parameter& weight, const ir::Attributes& values);

/// Returns the module's parameter of a trained weight.
const ir::Parameter& parameter_of(ir::Builder& builder, const Trainable& weight);

/// Applies layer-wise decay of the learning rate to the hints (BEiT, Bao et al., ICLR 2022; timm's
/// param_groups_layer_decay). With the last layer L, a parameter of layer i gets layer_decay^(L - i) times
/// its rate; one without a layer keeps its rate. Call it once per module. Throws UserError if no parameter
/// has a layer and layer_decay is not 1.
void apply_layer_decay(ir::Module& module, const ir::Attributes& values);

/// Returns weight_decay_end + (weight_decay - weight_decay_end) (1 + cos(pi step / total_steps)) / 2, f64[],
/// as DINO has it. `step` i64[] counts the run's updates. Returns none if the decay does not change. Throws
/// UserError if it changes and the run has no end.
ir::Value scheduled_decay(ir::Builder& builder, const ir::Attributes& values, ir::Value step,
                          const Timeline& timeline);

/// Returns the square root of the sum of all squares, in x's dtype.
ir::Value norm_of(ir::Builder& builder, ir::Value x);
/// Returns the ratio weight / step of two norms if both are > 0, else 1.
ir::Value trust_ratio(ir::Builder& builder, ir::Value weight, ir::Value step);

/// Scalars of an update. Each is emitted once.
class SharedScalars {
 public:
  void begin(const StepScalars& step);

  /// Returns the weight's learning rate in f64.
  ir::Value exact_rate(ir::Builder& builder, const WeightSettings& of_weight) const;
  /// Returns the weight's learning rate in f32.
  ir::Value rate(ir::Builder& builder, const WeightSettings& of_weight);
  /// Returns 1 - rate * decay of the weight in f32.
  ir::Value kept(ir::Builder& builder, const WeightSettings& of_weight);
  /// Returns x times the weight's decay.
  ir::Value decayed(ir::Builder& builder, ir::Value x, const WeightSettings& of_weight);
  /// Returns the number of updates that the weight has had, i64[].
  ir::Value updates(const Trainable& weight) const;
  /// Returns that number with this update, f64[].
  ir::Value count(ir::Builder& builder, const Trainable& weight);
  /// Returns 1 - beta^t in f64; `t` is f64[].
  ir::Value correction(ir::Builder& builder, ir::Value t, double beta);

 private:
  StepScalars step_;
  std::map<ir::DType, ir::Value> decay_;
  std::map<std::int32_t, ir::Value> counts_;  // by the counter's value
  std::map<double, ir::Value> rates_;         // by lr_scale
  std::map<WeightSettings, ir::Value> kept_;
  std::map<std::pair<std::int32_t, double>, ir::Value> corrections_;
};

/// A selected optimizer with settled values. The constructor throws UserError, naming the key.
struct ChosenOptimizer {
  explicit ChosenOptimizer(const ir::Selection& selection);

  std::string name;
  ir::Attributes values;
  std::unique_ptr<Optimizer> optimizer;
};

/// Emits training_point() of a weight.
ir::Value emit_training_point(ir::Builder& builder, const ChosenOptimizer& chosen, const Trainable& weight);
/// Emits new values of every weight and of its states, and their `update`s predicated on `finite` (i1[]).
/// Adds the states to the module. Returns the new weights in the order of `weights`. Of a weight that another process
/// updates there is neither: its new value is empty.
std::vector<ir::Value> emit_updates(ir::Builder& builder, const ChosenOptimizer& chosen,
                                    const std::vector<Trainable>& weights, const StepScalars& step,
                                    ir::Value finite);
/// Emits new values and updates of the states alone, by refresh(). Returns `finite`, false if a state is not
/// finite. `updates`: the updates that each weight has had, by name, for states that start as their weight.
ir::Value emit_refresh(ir::Builder& builder, const ChosenOptimizer& chosen,
                       const std::vector<Trainable>& weights, bool first, ir::Value finite,
                       const std::map<std::string, ir::Value, std::less<>>& updates = {});

}  // namespace rewire::programs
