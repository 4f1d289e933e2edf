// How weights move. An optimizer makes of a weight's gradient, in IR, its new value and what it remembers of
// it: the same few pointwise ops for all weights, so that a backend can make one kernel over a table of
// pointers. Each is one file under optimizers/ and one row of optimizers.cpp.
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

/// A parameter that trains, in a program: its name, the value read, and its gradient.
struct Trainable {
  std::string name;
  ir::Value value;
  ir::Value gradient;
  ir::Value updates = {};  // i64[], those that it has had; none: as many as the optimizer
  ir::Value moves = {};    // i1[], whether this step moves it, and its states; none: it does
  /// What the weight becomes of the optimizer's value of it; none: that value.
  std::function<ir::Value(ir::Value)> after = {};
};

/// What is remembered of a weight between steps: the parameter "<optimizer>.<role>.<weight>".
struct StateSpec {
  std::string role;
  ir::TensorType type;  // of any shape
  ir::Init init = {};
  bool starts_as_weight =
      false;  // of the weight's type: before the first update it is the weight, whatever `init` says
};

struct Updated {
  ir::Value weight;
  std::vector<ir::Value> states;  // in the order of states()
};

/// What an update's step says to all weights.
struct StepScalars {
  ir::Value lr;                 // f64[]
  ir::Value updates;            // i64[], those done before this one
  ir::Value weight_decay = {};  // f64[] where it follows a schedule; else none
};

/// For one program: it may keep values of it.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual std::vector<StateSpec> states(const ir::Parameter& weight) const = 0;
  /// Before the first update: the scalars that weights share.
  virtual void begin(ir::Builder& builder, const std::vector<Trainable>& weights,
                     const StepScalars& step) = 0;
  virtual Updated update(ir::Builder& builder, const Trainable& weight,
                         const std::vector<ir::Value>& states) = 0;

  /// Whether training steps take the loss and its gradients elsewhere than at the weights, which are what is evaluated and
  /// written to files: of Schedule-Free (Defazio et al., NeurIPS 2024) the weights are its averages x.
  virtual bool has_training_point() const { return false; }
  /// The value that training steps read in the weight's place, of its type. `weight` has no gradient, and begin() has not been called.
  /// What forward updates itself, as the running statistics of batch norms, follows this value; diagnostics and `grad` use the weights.
  virtual ir::Value training_point(ir::Builder&, const Trainable& weight,
                                   const std::vector<ir::Value>& /*states*/) {
    return weight.value;
  }

  /// Two programs of their own run behind some updates, `refresh_first` behind the first one of each phase of a
  /// run, `refresh` behind every period()-th that follows the run's first; 0: there is neither.
  virtual std::int64_t period() const { return 0; }
  /// In these programs, the next values of the states of all weights; `weights` have no gradients.
  virtual std::vector<std::vector<ir::Value>> refresh(ir::Builder& builder,
                                                      const std::vector<Trainable>& weights,
                                                      const std::vector<std::vector<ir::Value>>& states,
                                                      bool first);
};

struct OptimizerRow {
  std::string_view name, doc;
  ir::Schema schema;  // with common_parameters()
  /// Of values that are settled. UserError where they do not go together.
  std::unique_ptr<Optimizer> (*make)(const ir::Attributes& values);
};

std::span<const OptimizerRow* const> optimizers();
/// For an optimizer that is no resident, as tests have; the row must outlive the process.
void add_optimizer(const OptimizerRow& row);

/// lr, then `own`, then weight_decay, weight_decay_end, decay and layer_decay.
ir::Schema with_common_parameters(ir::Schema own, double lr = 1e-3, double weight_decay = 0.05);

/// What the common parameters come to for a weight: its OptimizerHint (ir/optimizer_hint.h) counts more.
struct WeightSettings {
  double lr_scale, weight_decay;
  bool scheduled = false;  // its decay is StepScalars::weight_decay instead

  bool decays() const { return scheduled || weight_decay != 0; }
  auto operator<=>(const WeightSettings&) const = default;
};
WeightSettings settings_of(const ir::Parameter& weight, const ir::Attributes& values);

/// Of an optimizer with the parameters beta1 and beta2: the hint's, or those.
struct Betas {
  double beta1, beta2;
  auto operator<=>(const Betas&) const = default;
};
Betas betas_of(const ir::Parameter& weight, const ir::Attributes& values);

/// The module's parameter that is trained.
const ir::Parameter& parameter_of(ir::Builder& builder, const Trainable& weight);

/// Layer-wise decay of the rate (BEiT, Bao et al., ICLR 2022; timm's param_groups_layer_decay), as a part of the
/// hints: a parameter of layer i of the last layer L has layer_decay^(L - i) times its rate; one that is of no
/// layer keeps it. Once a module. UserError where no parameter has a layer and layer_decay is not 1.
void apply_layer_decay(ir::Module& module, const ir::Attributes& values);

/// weight_decay_end + (weight_decay - weight_decay_end) (1 + cos(pi step / total_steps)) / 2, f64[], as DINO has it;
/// `step` i64[], the updates that the run has done. None where the decay does not change. UserError where it does
/// and the run has no end.
ir::Value scheduled_decay(ir::Builder& builder, const ir::Attributes& values, ir::Value step,
                          const Timeline& timeline);

/// sqrt of the sum of all squares, of x's dtype.
ir::Value norm_of(ir::Builder& builder, ir::Value x);
/// weight / step of two norms where both are > 0, else 1.
ir::Value trust_ratio(ir::Builder& builder, ir::Value weight, ir::Value step);

/// Scalars of an update, each emitted once.
class SharedScalars {
 public:
  void begin(const StepScalars& step);

  /// f64: the weight's learning rate.
  ir::Value exact_rate(ir::Builder& builder, const WeightSettings& of_weight) const;
  /// f32: the same.
  ir::Value rate(ir::Builder& builder, const WeightSettings& of_weight);
  /// f32: 1 - its rate times its decay.
  ir::Value kept(ir::Builder& builder, const WeightSettings& of_weight);
  /// x times its decay.
  ir::Value decayed(ir::Builder& builder, ir::Value x, const WeightSettings& of_weight);
  /// i64[], the updates that the weight has had.
  ir::Value updates(const Trainable& weight) const;
  /// f64[], the same with this one.
  ir::Value count(ir::Builder& builder, const Trainable& weight);
  /// f64: 1 - beta^t, `t` f64[].
  ir::Value correction(ir::Builder& builder, ir::Value t, double beta);

 private:
  StepScalars step_;
  std::map<ir::DType, ir::Value> decay_;
  std::map<std::int32_t, ir::Value> counts_;  // by what counts the updates
  std::map<double, ir::Value> rates_;         // by lr_scale
  std::map<WeightSettings, ir::Value> kept_;
  std::map<std::pair<std::int32_t, double>, ir::Value> corrections_;
};

/// An optimizer that was chosen, with its values settled. UserError naming the key.
struct ChosenOptimizer {
  explicit ChosenOptimizer(const ir::Selection& selection);

  std::string name;
  ir::Attributes values;
  std::unique_ptr<Optimizer> optimizer;
};

/// training_point() of a weight.
ir::Value emit_training_point(ir::Builder& builder, const ChosenOptimizer& chosen, const Trainable& weight);
/// Emits new values and their `update`s, predicated on `finite` (i1[]), of every weight and of its states,
/// which it adds to the module. Returns the weights' new values, in their order.
std::vector<ir::Value> emit_updates(ir::Builder& builder, const ChosenOptimizer& chosen,
                                    const std::vector<Trainable>& weights, const StepScalars& step,
                                    ir::Value finite);
/// The same of the states alone, by refresh(). Returns `finite`, fallen where a state is not.
/// `updates`: those that each weight has had, by its name, for states that start as their weight.
ir::Value emit_refresh(ir::Builder& builder, const ChosenOptimizer& chosen,
                       const std::vector<Trainable>& weights, bool first, ir::Value finite,
                       const std::map<std::string, ir::Value, std::less<>>& updates = {});

}  // namespace rewire::programs
