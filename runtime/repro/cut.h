// Cuts ops out of a function as a function of their own. Its arguments are the values that they read, its
// results the values that others read of them.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"

namespace rewire::runtime {

inline constexpr const char* kCutFunction = "kernel";

struct Cut {
  ir::Module module;  // the function kCutFunction alone, and the parameters that it reads or updates
  std::vector<ir::Value> inputs;  // the original value of each argument
};

/// Cuts out `ops`, body indices of the module's first function. Parameters, constants and shape ops through
/// which they read come along, so that the ops compile as before. Throws InternalError if the cut is no
/// module.
Cut cut_ops(const ir::Module& module, const std::vector<int>& ops);

}  // namespace rewire::runtime
