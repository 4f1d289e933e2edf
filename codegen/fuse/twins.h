// Finds values of one group that are computed alike. A chain that was cloned for a later reader
// (ir/passes/recompute) and then fused with its original needs no memory of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/fuse/grouping.h"

namespace rewire::codegen {

/// Returns a number by Value::id. Values of one node share it exactly if the same ops on the same operands,
/// at the same places, compute them. It is -1 for a value that no group computes.
std::vector<std::int32_t> twin_classes(const Grouping& grouping);

}  // namespace rewire::codegen
