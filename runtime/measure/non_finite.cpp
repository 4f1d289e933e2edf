#include "runtime/measure/non_finite.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "ir/ops/op_info.h"

namespace rewire::runtime {
namespace {

bool is_finite(const ir::Tensor& tensor) {
  if (!ir::is_float(tensor.type.dtype)) return true;
  return std::ranges::all_of(
      tensor.data, [&](double value) { return std::isfinite(ir::round_to(tensor.type.dtype, value)); });
}

/// Returns true if an op computes its results; other ops only place values elsewhere.
bool computes(const ir::Op& op) {
  const ir::OpClass op_class = ir::op_info(op.code).op_class;
  return op.code != ir::Opcode::update && op_class != ir::OpClass::shape;
}

/// A module with a flag for each float tensor that the function computes, in place of its results and
/// updates. A flag is f32[] and above 0 if an element is not finite. It is computed where its tensor is.
struct Probed {
  ir::Module module;
  std::vector<std::string> tensors;  // by flag
};

Probed probed(const ir::Module& module, const ir::Function& function) {
  Probed probed{module, {}};
  probed.module.functions.assign(1, {});
  ir::Function& out = probed.module.functions.front();
  out.name = function.name;
  out.arguments = function.arguments;
  out.types = function.types;
  out.trains = function.trains;
  ir::Builder b(probed.module, out);
  // Names the operand if the op's own place says little: a square of the gradients'
  // norm is "mul at optimizer".
  const std::vector<std::int32_t> definitions = function.definitions();
  const auto origin = [&](const ir::Op& op) -> std::string {
    const std::int32_t at =
        op.operands.empty() ? -1 : definitions[static_cast<std::size_t>(op.operands[0].id)];
    if (at < 0) return {};
    const ir::Op& before = function.body[static_cast<std::size_t>(at)];
    return before.location == op.location ? "" : ", of the result of " + ir::describe(before);
  };
  for (const ir::Op& op : function.body) {
    if (op.code == ir::Opcode::update) continue;
    out.body.push_back(op);
    b.set_position(out.body.size());
    for (const ir::Value result : op.results) {
      const ir::TensorType type = function.type(result);
      if (!computes(op) || !ir::is_float(type.dtype)) continue;
      b.set_location(op.location);
      const ir::Value finite = b.unary(ir::Opcode::isfinite, result);
      ir::Value flag = b.select(finite, b.constant(0), b.constant(1));
      ir::Ints axes(type.shape.size());
      std::iota(axes.begin(), axes.end(), 0);
      if (!axes.empty()) flag = b.max(flag, axes);
      b.result(std::to_string(probed.tensors.size()), b.reshape(flag, {}));
      probed.tensors.push_back(fmt::format("{}, {}{}", ir::describe(op), to_string(type), origin(op)));
    }
  }
  return probed;
}

/// Replays on the engine that computed it: an overflow may come only from its
/// rounding, or the order of its sums.
std::optional<std::string> first_compiled(const ir::Module& module, const ir::Function& function,
                                          const Engine& engine, const TensorMap& inputs) {
  const Probed probe = probed(module, function);
  const std::unique_ptr<Engine> replay = engine.alike(probe.module);
  if (replay == nullptr) return std::nullopt;
  for (const ir::Parameter& parameter : module.parameters)
    replay->write_state(parameter.name, engine.read_state(parameter.name));
  const TensorMap flags = replay->run(function.name, inputs);
  for (std::size_t i = 0; i < probe.tensors.size(); ++i) {
    if (flags.at(std::to_string(i)).as<float>()[0] > 0) return probe.tensors[i];
  }
  return std::nullopt;
}

/// Returns what the compiled program shows if every tensor is finite in double precision.
std::string found_compiled(const ir::Module& module, const ir::Function& function, const Engine& engine,
                           const TensorMap& inputs) {
  const std::string in_double = "replayed in double precision, every tensor is finite";
  try {
    if (const auto tensor = first_compiled(module, function, engine, inputs))
      return fmt::format("{}; in the compiled program, the first non-finite tensor is the result of {}",
                         in_double, *tensor);
  } catch (const std::exception& failure) {  // a device without memory for it, for one
    return fmt::format("{} (the compiled program could not be replayed: {})", in_double, failure.what());
  }
  return in_double;
}

}  // namespace

std::string first_non_finite(const ir::Module& module, std::string_view function_name, const Engine& engine,
                             const TensorMap& inputs) {
  const ir::Function& function = module.function(function_name);
  ir::EvalState state;
  state.training = function.trains;
  for (const ir::Parameter& parameter : module.parameters) {
    const auto entry =
        state.tensors.emplace(parameter.name, to_double(engine.read_state(parameter.name))).first;
    if (!is_finite(entry->second)) return fmt::format("parameter '{}' is not finite", parameter.name);
  }
  std::vector<ir::Tensor> arguments;
  for (const ir::Argument& argument : function.arguments) {
    arguments.push_back(to_double(inputs.find(argument.name)->second));
    if (!is_finite(arguments.back())) return fmt::format("input '{}' is not finite", argument.name);
  }
  std::optional<std::string> found;
  ir::evaluate_until(function, arguments, state,
                     [&](const ir::Op& op, ir::Value result, const ir::Tensor& tensor) {
                       if (is_finite(tensor)) return true;
                       found = fmt::format("the first non-finite tensor is the result of {}, {}",
                                           ir::describe(op), to_string(function.type(result)));
                       return false;
                     });
  return found ? *found : found_compiled(module, function, engine, inputs);
}

}  // namespace rewire::runtime
