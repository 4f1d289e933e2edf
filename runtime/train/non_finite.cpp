#include "runtime/train/non_finite.h"

#include <algorithm>
#include <cmath>

#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/ops/op_info.h"

namespace rewire::runtime {
namespace {

bool is_finite(const ir::Tensor& tensor) {
  if (!ir::is_float(tensor.type.dtype)) return true;
  return std::ranges::all_of(
      tensor.data, [&](double value) { return std::isfinite(ir::round_to(tensor.type.dtype, value)); });
}

}  // namespace

std::string first_non_finite(const ir::Module& module, std::string_view function_name, const Engine& engine,
                             const TensorMap& inputs) {
  const ir::Function& function = module.function(function_name);
  ir::EvalState state;
  state.training = true;
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
  std::string found = "replayed in double precision, every tensor is finite";
  ir::evaluate_until(function, arguments, state,
                     [&](const ir::Op& op, ir::Value result, const ir::Tensor& tensor) {
                       if (is_finite(tensor)) return true;
                       found = fmt::format("the first non-finite tensor is the result of {}, {}",
                                           ir::describe(op), to_string(function.type(result)));
                       return false;
                     });
  return found;
}

}  // namespace rewire::runtime
