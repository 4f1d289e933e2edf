// Checks that every engine makes before it runs: names and types of functions, inputs and state. Messages
// have the nearest match.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

/// Returns the one of this name. Throws UserError with the nearest match if there is none.
const ir::Function& checked_function(const ir::Module& module, std::string_view name);
const ir::Parameter& checked_parameter(const ir::Module& module, std::string_view name);

/// Throws UserError naming the parameter and both types if `value` is of another.
void check_state_type(const ir::Parameter& parameter, const HostTensor& value);

/// Returns the inputs in the order of the function's arguments. Throws UserError unless each is there, of
/// its type, and no other.
std::vector<const HostTensor*> bind_inputs(const ir::Function& function, const TensorMap& inputs);

}  // namespace rewire::runtime
