// An optimizer's programs without a network: updates of weights by gradients that a test gives.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/evaluate.h"
#include "ir/module.h"
#include "ir/registry.h"
#include "runtime/exec/engine.h"

namespace rewire::programs {

struct UpdatedWeight {
  std::string name;
  ir::Shape shape;
  bool decay = true;
  std::string role = {};
  ir::OptimizerHint hint = {};
};

/// By name, flat.
using WeightValues = std::map<std::string, std::vector<double>>;

/// apply(NAME.g of every weight) is one update at the rate optimizer.lr, counted by the state optimizer.step; the
/// run has `total_steps`. With the optimizer's programs refresh_first and refresh, where it has them.
ir::Module update_module(const ir::Selection& optimizer, const std::vector<UpdatedWeight>& weights,
                         std::int64_t total_steps = 0);

/// What runs the programs: each backend's weights between updates.
class UpdateRun {
 public:
  /// By the evaluator, in double.
  UpdateRun(const ir::Selection& optimizer, const ir::Module& module, const WeightValues& start);
  /// By the compiled engine.
  UpdateRun(const ir::Selection& optimizer, const ir::Module& module, const WeightValues& start, int threads);

  /// One update and the refreshes behind it.
  void update(const WeightValues& gradients);
  std::vector<double> read(const std::string& state) const;

 private:
  void run(const std::string& function, const WeightValues& arguments);

  const ir::Module& module_;
  std::int64_t period_, updates_ = 0;
  ir::EvalState state_;
  std::unique_ptr<runtime::Engine> engine_;  // null: the evaluator
};

}  // namespace rewire::programs
