// Estimates how many instructions a node takes on one vector, to choose between recomputing and keeping, and
// between unrolling and looping.
#pragma once

#include "codegen/llvm/loop_tree.h"

namespace rewire::codegen::cpu {

/// The cost from which a node is worth a vector loop of its own (division and more expensive nodes).
inline constexpr int kDear = 8;

int node_cost(const LoopProgram& program, const tile::Node& node);

}  // namespace rewire::codegen::cpu
