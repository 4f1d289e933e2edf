// The engine that runs programs on the evaluator: the state is the evaluator's own doubles, kept between
// runs; values cross the interface in their stored dtypes.
#include <set>

#include "ir/error.h"
#include "ir/evaluate.h"
#include "runtime/exec/engine.h"

namespace rewire::runtime {
namespace {

template <class Items>
std::vector<std::string> names_of(const Items& items) {
  std::vector<std::string> names;
  for (const auto& item : items) names.push_back(item.name);
  return names;
}

/// The functions that the module's attribute "training" lists, joined by '+'.
std::set<std::string, std::less<>> training_functions(const ir::Module& module) {
  std::set<std::string, std::less<>> functions;
  const ir::Attribute* attribute = module.attributes.find("training");
  if (attribute == nullptr) return functions;
  const auto* list = std::get_if<std::string>(attribute);
  if (list == nullptr) user_error("module @{}: attribute 'training' must be a string", module.name);
  std::string_view rest = *list;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('+'), rest.size());
    const std::string_view name = rest.substr(0, end);
    if (module.find_function(name) == nullptr) {
      user_error("module @{}: attribute 'training' names '{}', which is no function of the module{}",
                 module.name, name, did_you_mean(name, names_of(module.functions)));
    }
    functions.emplace(name);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return functions;
}

/// UserError naming the tensor where it holds an integer that no double holds.
ir::Tensor doubles_of(std::string_view what, std::string_view name, const HostTensor& tensor) {
  try {
    return to_double(tensor);
  } catch (const UserError& error) {
    user_error("{} '{}': {}", what, name, error.what());
  }
}

class EvaluatorEngine final : public Engine {
 public:
  explicit EvaluatorEngine(const ir::Module& module)
      : module_(module), training_functions_(training_functions(module)) {
    for (const ir::Parameter& parameter : module_.parameters) {
      state_.tensors.emplace(parameter.name, ir::Tensor(parameter.type));
    }
  }

  void write_state(std::string_view name, const HostTensor& value) override {
    ir::Tensor& tensor = state_.tensors.at(parameter(name).name);
    if (value.type() != tensor.type) {
      user_error("parameter '{}' is {}, not {}", name, to_string(tensor.type), to_string(value.type()));
    }
    tensor = doubles_of("parameter", name, value);
  }

  HostTensor read_state(std::string_view name) const override {
    return to_host(state_.tensors.at(parameter(name).name));
  }

  TensorMap run(std::string_view function_name, const TensorMap& inputs) override {
    const ir::Function* function = module_.find_function(function_name);
    if (function == nullptr) {
      user_error("module @{} has no function '{}'{}", module_.name, function_name,
                 did_you_mean(function_name, names_of(module_.functions)));
    }
    const std::vector<ir::Tensor> arguments = bind(*function, inputs);
    state_.training = training_functions_.contains(function_name);
    const std::vector<ir::Tensor> results = evaluate(module_, *function, arguments, state_);
    TensorMap outputs;
    for (std::size_t i = 0; i < results.size(); ++i) {
      outputs.emplace(function->results[i].name, to_host(results[i]));
    }
    return outputs;
  }

 private:
  const ir::Parameter& parameter(std::string_view name) const {
    const ir::Parameter* found = module_.find_parameter(name);
    if (found == nullptr) {
      user_error("module @{} has no parameter '{}'{}", module_.name, name,
                 did_you_mean(name, names_of(module_.parameters)));
    }
    return *found;
  }

  /// The inputs in the order of the function's arguments: each there, of its type, and no other.
  static std::vector<ir::Tensor> bind(const ir::Function& function, const TensorMap& inputs) {
    std::vector<ir::Tensor> arguments;
    for (const ir::Argument& argument : function.arguments) {
      const auto input = inputs.find(argument.name);
      const ir::TensorType& type = function.type(argument.value);
      if (input == inputs.end()) {
        user_error("function '{}' needs the input '{}', {}", function.name, argument.name, to_string(type));
      }
      if (input->second.type() != type) {
        user_error("input '{}' of function '{}' is {}, not {}", argument.name, function.name, to_string(type),
                   to_string(input->second.type()));
      }
      arguments.push_back(doubles_of("input", argument.name, input->second));
    }
    for (const auto& [name, tensor] : inputs) {
      if (!function.argument(name)) {
        user_error("function '{}' has no input '{}'{}", function.name, name,
                   did_you_mean(name, names_of(function.arguments)));
      }
    }
    return arguments;
  }

  const ir::Module module_;
  const std::set<std::string, std::less<>> training_functions_;
  ir::EvalState state_;
};

}  // namespace

std::unique_ptr<Engine> make_evaluator_engine(const ir::Module& module) {
  return std::make_unique<EvaluatorEngine>(module);
}

}  // namespace rewire::runtime
