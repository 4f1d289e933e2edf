// How weights move. An optimizer makes of a weight's gradient, in IR, its new value and what it remembers of
// it: the same few pointwise ops for all weights, so that a backend can make one kernel over a table of
// pointers. Each is one file under optimizers/ and one row of optimizers.cpp.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "ir/registry.h"

namespace rewire::programs {

/// A parameter that trains, in a program: its name, the value read, and its gradient.
struct Trainable {
  std::string name;
  ir::Value value;
  ir::Value gradient;
  ir::Value updates = {};  // i64[], those that it has had; none: as many as the optimizer
  /// What the weight becomes of the optimizer's value of it; none: that value.
  std::function<ir::Value(ir::Value)> after = {};
};

/// What is remembered of a weight between steps: the parameter "<optimizer>.<role>.<weight>".
struct StateSpec {
  std::string role;
  ir::TensorType type;  // of any shape
  ir::Init init = {};
};

struct Updated {
  ir::Value weight;
  std::vector<ir::Value> states;  // in the order of states()
};

/// For one program: it may keep values of it.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual std::vector<StateSpec> states(const ir::TensorType& weight) const = 0;
  /// Before the first update: the scalars that weights share. `lr` f64[]; `step` i64[], the updates done
  /// before this one.
  virtual void begin(ir::Builder& builder, const std::vector<Trainable>& weights, ir::Value lr,
                     ir::Value step) = 0;
  virtual Updated update(ir::Builder& builder, const Trainable& weight,
                         const std::vector<ir::Value>& states) = 0;

  /// Behind every so many updates the program `refresh` runs, a step of its own; 0: there is none.
  virtual std::int64_t period() const { return 0; }
  /// In that program, the next values of a weight's states; `weight` has no gradient.
  virtual std::vector<ir::Value> refresh(ir::Builder& builder, const Trainable& weight,
                                         const std::vector<ir::Value>& states);
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

/// lr, then `own`, then weight_decay, decay and layer_decay.
ir::Schema with_common_parameters(ir::Schema own);

/// What the common parameters come to for a weight: its OptimizerHint (ir/optimizer_hint.h) counts more.
struct WeightSettings {
  double lr_scale, weight_decay;
};
WeightSettings settings_of(const ir::Parameter& weight, const ir::Attributes& values);

/// Layer-wise decay of the rate (BEiT, Bao et al., ICLR 2022; timm's param_groups_layer_decay), as a part of the
/// hints: a parameter of layer i of the last layer L has layer_decay^(L - i) times its rate; one that is of no
/// layer keeps it. Once a module. UserError where no parameter has a layer and layer_decay is not 1.
void apply_layer_decay(ir::Module& module, const ir::Attributes& values);

/// `lr` times `scale`; `lr` itself at 1.
ir::Value scaled(ir::Builder& builder, ir::Value lr, double scale);

/// An optimizer that was chosen, with its values settled. UserError naming the key.
struct ChosenOptimizer {
  explicit ChosenOptimizer(const ir::Selection& selection);

  std::string name;
  ir::Attributes values;
  std::unique_ptr<Optimizer> optimizer;
};

/// Emits new values and their `update`s, predicated on `finite` (i1[]), of every weight and of its states,
/// which it adds to the module. Returns the weights' new values, in their order.
std::vector<ir::Value> emit_updates(ir::Builder& builder, const ChosenOptimizer& chosen,
                                    const std::vector<Trainable>& weights, ir::Value lr, ir::Value step,
                                    ir::Value finite);
/// The same of the states alone, by refresh(). Returns `finite`, fallen where a state is not.
ir::Value emit_refresh(ir::Builder& builder, const ChosenOptimizer& chosen,
                       const std::vector<Trainable>& weights, ir::Value finite);

}  // namespace rewire::programs
