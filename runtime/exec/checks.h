// What every engine checks before it runs: names and types of functions, inputs and state, with the nearest
// match in the message.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

using FunctionNames = std::set<std::string, std::less<>>;

/// The functions that the module's attribute "training" lists, joined by '+'. UserError if it names one that
/// is not there.
FunctionNames training_functions(const ir::Module& module);

/// UserError with the nearest match if the module has none of this name.
const ir::Function& checked_function(const ir::Module& module, std::string_view name);
const ir::Parameter& checked_parameter(const ir::Module& module, std::string_view name);

/// UserError naming the parameter and both types if `value` is of another.
void check_state_type(const ir::Parameter& parameter, const HostTensor& value);

/// The inputs in the order of the function's arguments: each there, of its type, and no other; else
/// UserError.
std::vector<const HostTensor*> bind_inputs(const ir::Function& function, const TensorMap& inputs);

}  // namespace rewire::runtime
