// State ops: they read and update parameters, and say whether the program trains.
#include "ir/error.h"
#include "ir/ops/checks.h"
#include "ir/ops/functions.h"

namespace rewire::ir {
namespace {

const Parameter& named_parameter(const InferContext& context) {
  const std::string& name = context.attributes.get_string("name");
  if (const Parameter* parameter = context.module.find_parameter(name)) return *parameter;
  std::vector<std::string> known;
  for (const Parameter& parameter : context.module.parameters) known.push_back(parameter.name);
  user_error("the module has no parameter '{}'{}", name, did_you_mean(name, known));
}

Tensor& state_tensor(EvalContext& context, const TensorType& type) {
  const std::string& name = context.op.attributes.get_string("name");
  const auto found = context.state.tensors.find(name);
  if (found == context.state.tensors.end()) user_error("the state holds no '{}'", name);
  Tensor& tensor = found->second;
  if (tensor.type != type || static_cast<std::int64_t>(tensor.data.size()) != type.elements()) {
    user_error("the state holds '{}' as {} with {} elements, the program reads {}", name,
               to_string(tensor.type), tensor.data.size(), to_string(type));
  }
  return tensor;
}

}  // namespace

std::vector<TensorType> infer_param(const InferContext& context) {
  const Parameter& parameter = named_parameter(context);
  if (parameter.type != *context.requested) {
    user_error("parameter '{}' is {}, not {}", parameter.name, to_string(parameter.type),
               to_string(*context.requested));
  }
  return {parameter.type};
}

std::vector<TensorType> infer_update(const InferContext& context) {
  const Parameter& parameter = named_parameter(context);
  require_type(context, 0, fmt::format("the new value of '{}'", parameter.name), parameter.type);
  if (context.operands.size() == 2) require_type(context, 1, "the predicate (operand 1)", {DType::i1, {}});
  return {};
}

std::vector<TensorType> infer_is_training(const InferContext& context) {
  const TensorType flag{DType::i1, {}};
  if (*context.requested != flag) user_error("the result is i1[], not {}", to_string(*context.requested));
  return {flag};
}

void eval_param(EvalContext& context) {
  context.out() = state_tensor(context, context.out().type);
}

void eval_update(EvalContext& context) {
  Tensor& tensor = state_tensor(context, context.in(0).type);
  const bool predicate = context.operands.size() == 1 || context.in(1).scalar() != 0;
  if (predicate) tensor.data = context.in(0).data;
}

void eval_is_training(EvalContext& context) {
  context.out().data[0] = context.state.training ? 1 : 0;
}

}  // namespace rewire::ir
