// Checks that all engines share; see checks.h.
#include "runtime/exec/checks.h"

#include "ir/error.h"

namespace rewire::runtime {
namespace {

template <class Items>
std::vector<std::string> names_of(const Items& items) {
  std::vector<std::string> names;
  for (const auto& item : items) names.push_back(item.name);
  return names;
}

}  // namespace

const ir::Function& checked_function(const ir::Module& module, std::string_view name) {
  if (const ir::Function* found = module.find_function(name)) return *found;
  user_error("module @{} has no function '{}'{}", module.name, name,
             did_you_mean(name, names_of(module.functions)));
}

const ir::Parameter& checked_parameter(const ir::Module& module, std::string_view name) {
  if (const ir::Parameter* found = module.find_parameter(name)) return *found;
  user_error("module @{} has no parameter '{}'{}", module.name, name,
             did_you_mean(name, names_of(module.parameters)));
}

void check_state_type(const ir::Parameter& parameter, const HostTensor& value) {
  if (value.type() == parameter.type) return;
  user_error("parameter '{}' is {}, not {}", parameter.name, to_string(parameter.type),
             to_string(value.type()));
}

std::vector<const HostTensor*> bind_inputs(const ir::Function& function, const TensorMap& inputs) {
  std::vector<const HostTensor*> bound;
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
    bound.push_back(&input->second);
  }
  for (const auto& [name, tensor] : inputs) {
    if (!function.argument(name)) {
      user_error("function '{}' has no input '{}'{}", function.name, name,
                 did_you_mean(name, names_of(function.arguments)));
    }
  }
  return bound;
}

}  // namespace rewire::runtime
