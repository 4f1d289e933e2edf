// Some ops of a function as a function of their own: what they read is its arguments, what others read of them its
// results.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"

namespace rewire::runtime {

inline constexpr const char* kCutFunction = "kernel";

struct Cut {
  ir::Module module;  // the function kCutFunction alone, and the parameters that it reads or updates
  std::vector<ir::Value> inputs;  // by argument: the value of the function that it is
};

/// `ops`: body indices of the module's first function. Parameters, constants and shape ops through which the ops read are
/// cut out with them, so that the ops are compiled as they were. InternalError where what is cut out is no module.
Cut cut_ops(const ir::Module& module, const std::vector<int>& ops);

}  // namespace rewire::runtime
