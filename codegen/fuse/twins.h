// Values of one group that are computed alike. A chain that was cloned for a later reader
// (ir/passes/recompute) and then joined the kernel of its original needs no memory of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/fuse/grouping.h"

namespace rewire::codegen {

/// By Value::id: a number that values of one node share exactly when the same ops on the same operands, at
/// the same places, compute them; -1 for what no group computes.
std::vector<std::int32_t> twin_classes(const Grouping& grouping);

}  // namespace rewire::codegen
