// About how many instructions a node takes on one vector: for the choices between computing again and
// keeping, unrolling and looping.
#pragma once

#include "codegen/llvm/loop_tree.h"

namespace rewire::codegen::cpu {

/// From here on a node is worth a vector loop of its own (division and everything dearer).
inline constexpr int kDear = 8;

int node_cost(const LoopProgram& program, const tile::Node& node);

}  // namespace rewire::codegen::cpu
