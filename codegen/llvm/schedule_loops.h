// The first half of building a loop tree: puts the nodes of one section into loops.
#pragma once

#include "codegen/llvm/loop_tree.h"

namespace rewire::codegen::cpu {

/// Cuts multi-axis reductions into single-axis ones (last axis first), and gives a carried value a `next`
/// that a node of its own defines, if it has none.
tile::Kernel normalise(const tile::Kernel& kernel);

/// Returns the loop tree of nodes [begin, end) of the program.
Block schedule_loops(const LoopProgram& program, std::int32_t begin, std::int32_t end);

}  // namespace rewire::codegen::cpu
