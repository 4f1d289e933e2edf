// The interpreter. It runs the body op by op, frees a value
// after its last use, and applies the updates at the end.
#include "ir/evaluate.h"

#include <optional>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/op_info.h"
#include "ir/rounding_noise.h"

namespace rewire::ir {
namespace {

std::size_t index(Value value) {
  return static_cast<std::size_t>(value.id);
}

void check_arguments(const Function& function, const std::vector<Tensor>& arguments) {
  if (arguments.size() != function.arguments.size()) {
    user_error("function '{}' takes {} arguments, got {}", function.name, function.arguments.size(),
               arguments.size());
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Argument& argument = function.arguments[i];
    const TensorType& type = function.type(argument.value);
    if (arguments[i].type != type) {
      user_error("argument '{}' of function '{}' is {}, got {}", argument.name, function.name,
                 to_string(type), to_string(arguments[i].type));
    }
    if (static_cast<std::int64_t>(arguments[i].data.size()) != type.elements()) {
      user_error("argument '{}' of function '{}' has {} elements, its type {} says {}", argument.name,
                 function.name, arguments[i].data.size(), to_string(type), type.elements());
    }
  }
}

/// Returns, for each value, the body index after which
/// nothing reads it. Results of the function live to the end.
std::vector<std::size_t> last_uses(const Function& function) {
  std::vector<std::size_t> last(function.types.size(), 0);
  for (std::size_t i = 0; i < function.body.size(); ++i) {
    for (Value result : function.body[i].results) last[index(result)] = i;
    for (Value operand : function.body[i].operands) last[index(operand)] = i;
  }
  for (const Op& op : function.body) {
    if (op.code != Opcode::update) continue;
    for (Value operand : op.operands) last[index(operand)] = function.body.size();
  }
  for (const Argument& result : function.results) last[index(result.value)] = function.body.size();
  return last;
}

Tensor rounded_to_tf32(Tensor tensor) {
  if (tensor.type.dtype != DType::f32) return tensor;
  for (double& x : tensor.data) x = round_to_tf32(x);
  return tensor;
}

void run_op(const Function& function, std::size_t position, std::vector<Tensor>& values, EvalState& state) {
  const Op& op = function.body[position];
  std::vector<const Tensor*> operands;
  std::vector<Tensor> rounded;
  if (state.round_to_tf32 && op_info(op.code).arithmetic == Arithmetic::product) {
    for (Value operand : op.operands) rounded.push_back(rounded_to_tf32(values[index(operand)]));
    for (const Tensor& operand : rounded) operands.push_back(&operand);
  } else {
    for (Value operand : op.operands) operands.push_back(&values[index(operand)]);
  }
  std::vector<Tensor> results;
  for (Value result : op.results) results.emplace_back(function.type(result));
  EvalContext context{op, std::move(operands), results, state};
  try {
    if (state.noise != 0) {
      evaluate_with_noise(context, state.noise, position);
    } else {
      op_info(op.code).evaluate(context);
    }
  } catch (const UserError& error) {
    user_error("{}: {}", describe(op), error.what());
  }
  if (state.round) {
    for (Tensor& result : results) {
      if (!is_float(result.type.dtype)) continue;
      for (double& x : result.data) x = round_to(result.type.dtype, x);
    }
  }
  for (std::size_t i = 0; i < op.results.size(); ++i) values[index(op.results[i])] = std::move(results[i]);
}

using Visit = std::function<bool(const Op&, Value, const Tensor&)>;

/// Returns the values that live to the end, by Value::id. Returns nothing if `visit` stopped the run.
std::optional<std::vector<Tensor>> run_body(const Function& function, const std::vector<Tensor>& arguments,
                                            EvalState& state, const Visit& visit) {
  check_arguments(function, arguments);
  std::vector<Tensor> values(function.types.size());
  for (std::size_t i = 0; i < arguments.size(); ++i)
    values[index(function.arguments[i].value)] = arguments[i];

  const std::vector<std::size_t> last = last_uses(function);
  for (std::size_t i = 0; i < function.body.size(); ++i) {
    const Op& op = function.body[i];
    if (op.code == Opcode::update) continue;
    run_op(function, i, values, state);
    for (Value result : op.results) {
      if (visit && !visit(op, result, values[index(result)])) return std::nullopt;
    }
    for (const std::vector<Value>* uses : {&op.operands, &op.results}) {
      for (Value value : *uses) {
        if (last[index(value)] == i) values[index(value)] = Tensor();
      }
    }
  }
  return values;
}

}  // namespace

std::vector<Tensor> evaluate(const Module& /*module*/, const Function& function,
                             const std::vector<Tensor>& arguments, EvalState& state) {
  std::vector<Tensor> values = *run_body(function, arguments, state, {});
  for (std::size_t i = 0; i < function.body.size(); ++i) {
    if (function.body[i].code == Opcode::update) run_op(function, i, values, state);
  }
  std::vector<Tensor> results;
  for (const Argument& result : function.results) results.push_back(values[index(result.value)]);
  return results;
}

void evaluate_until(const Function& function, const std::vector<Tensor>& arguments, EvalState& state,
                    const Visit& visit) {
  run_body(function, arguments, state, visit);
}

}  // namespace rewire::ir
