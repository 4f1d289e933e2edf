#include "runtime/verify/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "ir/ops/op_info.h"
#include "ir/passes/dce.h"
#include "runtime/verify/perturbed_state.h"

namespace rewire::runtime {
namespace {

constexpr double kStep = 1e-3;  // h, along directions of length 1 in each weight tensor
constexpr double kSmallestStep = kStep / 32768;
constexpr double kFloor = 1e-6;

using Direction = std::map<std::string, std::vector<double>, std::less<>>;

ir::Function without_dead_code(ir::Module module) {
  ir::PassContext context;
  ir::dce(module, context);
  return module.functions.front();
}

/// Returns the program `grad` reduced to its loss.
ir::Function loss_program(ir::Module module) {
  std::erase_if(module.functions, [](const ir::Function& function) { return function.name != "grad"; });
  std::erase_if(module.functions.front().results,
                [](const ir::Argument& result) { return result.name != "loss"; });
  return without_dead_code(std::move(module));
}

bool is_cut(const ir::Op& op) {
  return op.code == ir::Opcode::stop_gradient;
}

/// Returns the function with the results of its stop_gradients as further arguments, in their order.
ir::Function with_held_cuts(const ir::Module& module, ir::Function function) {
  std::size_t cuts = 0;
  for (const ir::Op& op : function.body) {
    if (is_cut(op)) function.arguments.push_back({fmt::format("cut.{}", cuts++), op.results.front()});
  }
  std::erase_if(function.body, is_cut);
  ir::Module held = module;
  held.functions = {std::move(function)};
  return without_dead_code(std::move(held));
}

class Checker {
 public:
  Checker(const ir::Module& module, const TensorMap& weights, std::uint64_t seed)
      : module_(module), grad_(module.function("grad")), seed_(seed) {
    state_.tensors = perturbed_state(module, weights, seed);
    state_.training = true;
    for (const ir::Argument& argument : grad_.arguments)
      arguments_.push_back(random_argument(module_, grad_, argument, seed));
    const std::vector<ir::Tensor> results = ir::evaluate(module_, grad_, arguments_, state_);
    for (std::size_t i = 0; i < results.size(); ++i) gradients_.emplace(grad_.results[i].name, results[i]);
    ir::Function loss = loss_program(module);
    const std::vector<ir::Tensor> given = arguments_;
    ir::evaluate_until(loss, given, state_, [&](const ir::Op& op, ir::Value, const ir::Tensor& result) {
      if (is_cut(op)) arguments_.push_back(result);
      return true;
    });
    loss_ = with_held_cuts(module, std::move(loss));
  }

  double loss() const { return gradients_.find("loss")->second.scalar(); }

  GradientCheckRow check(const std::string& role, std::int64_t index) {
    GradientCheckRow row;
    row.role = role;
    const Direction direction = draw_direction(role, index);
    for (const auto& [name, values] : direction) {
      row.weights += static_cast<std::int64_t>(values.size());
      const std::vector<double>& gradient = gradients_.find(name)->second.data;
      for (std::size_t i = 0; i < values.size(); ++i) row.gradient += gradient[i] * values[i];
    }
    measure(row, direction, kStep);
    // The loss of a narrow or badly conditioned network curves so much that O(h^4) shows, and that of one with many
    // ReLUs has a kink between the points: smaller steps are tried. A wrong gradient stays wrong with every step.
    for (double step = kStep / 8; !row.passed && step >= kSmallestStep; step /= 8) {
      GradientCheckRow closer = row;
      measure(closer, direction, step);
      if (closer.error < row.error) row = closer;
    }
    return row;
  }

 private:
  void measure(GradientCheckRow& row, const Direction& direction, double step) const {
    row.difference = (8 * (loss_at(direction, step) - loss_at(direction, -step)) -
                      (loss_at(direction, 2 * step) - loss_at(direction, -2 * step))) /
                     (12 * step);
    const double scale = std::max(
        {std::abs(row.gradient), std::abs(row.difference), kFloor * std::max(1.0, std::abs(loss()))});
    row.error = std::abs(row.gradient - row.difference) / scale;
    row.passed = row.error <= kGradientTolerance;  // false for a NaN
  }

  /// Returns a direction of length 1 in each weight tensor of the role.
  Direction draw_direction(const std::string& role, std::int64_t index) const {
    Direction direction;
    for (const ir::Parameter& parameter : module_.parameters) {
      if (!parameter.trainable || parameter.role != role || !gradients_.contains(parameter.name)) continue;
      std::vector<double> values =
          normal_numbers(seed_, fmt::format("direction/{}/{}", index, parameter.name),
                         static_cast<std::size_t>(parameter.type.elements()));
      double square = 0;
      for (const double value : values) square += value * value;
      for (double& value : values) value /= std::sqrt(square);
      direction.emplace(parameter.name, std::move(values));
    }
    return direction;
  }

  double loss_at(const Direction& direction, double distance) const {
    ir::EvalState moved = state_;
    for (const auto& [name, values] : direction) {
      std::vector<double>& data = moved.tensors.find(name)->second.data;
      for (std::size_t i = 0; i < values.size(); ++i) data[i] += distance * values[i];
    }
    return ir::evaluate(module_, loss_, arguments_, moved).at(0).scalar();
  }

  const ir::Module& module_;
  const ir::Function& grad_;
  ir::Function loss_;  // its cuts are arguments, held constant
  const std::uint64_t seed_;
  ir::EvalState state_;
  std::vector<ir::Tensor> arguments_;  // of loss_
  std::map<std::string, ir::Tensor, std::less<>> gradients_;
};

}  // namespace

bool GradientCheck::passed() const {
  return std::ranges::all_of(rows, &GradientCheckRow::passed);
}

std::vector<std::string> gradient_cuts(const ir::Module& module) {
  const ir::Function loss = loss_program(module);
  const std::vector<std::int32_t> definitions = loss.definitions();
  std::vector<bool> trains(loss.types.size());  // by Value::id: a gradient goes on from it to some weight
  const auto at = [](ir::Value value) { return static_cast<std::size_t>(value.id); };
  std::vector<std::string> cuts;
  for (const ir::Op& op : loss.body) {
    bool flows =
        std::ranges::any_of(op.operands, [&](ir::Value operand) { return bool(trains[at(operand)]); });
    if (is_cut(op) && flows) {
      const ir::Op& cut = loss.body[static_cast<std::size_t>(definitions[at(op.operands.front())])];
      const std::string text = fmt::format("{}, of {}", op.location, ir::describe(cut));
      if (std::ranges::find(cuts, text) == cuts.end()) cuts.push_back(text);
    }
    flows = flows && ir::op_info(op.code).vjp != nullptr;
    if (op.code == ir::Opcode::param)
      flows = module.find_parameter(op.attributes.get_string("name"))->trainable;
    for (const ir::Value result : op.results) trains[at(result)] = flows;
  }
  return cuts;
}

GradientCheck check_gradients(const ir::Module& module, const TensorMap& weights, std::uint64_t seed,
                              std::int64_t directions) {
  Checker checker(module, weights, seed);
  std::vector<std::string> roles;
  for (const ir::Parameter& parameter : module.parameters) {
    const bool has_gradient = static_cast<bool>(module.function("grad").result(parameter.name));
    if (parameter.trainable && has_gradient && std::ranges::find(roles, parameter.role) == roles.end()) {
      roles.push_back(parameter.role);
    }
  }
  GradientCheck check;
  check.loss = checker.loss();
  for (const std::string& role : roles) {
    for (std::int64_t index = 0; index < directions; ++index)
      check.rows.push_back(checker.check(role, index));
  }
  return check;
}

}  // namespace rewire::runtime
