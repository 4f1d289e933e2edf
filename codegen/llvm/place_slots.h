// Places slots: in registers if constants index them, else in the scratch memory. Slots that are never alive
// at once share it. A slot that is written element by element, where another is read for the last time,
// takes that one's place.
#pragma once

#include <set>
#include <vector>

#include "codegen/llvm/loop_tree.h"

namespace rewire::codegen::cpu {

/// The life of a slot, in steps of the sections' blocks, and within a step in the order of nodes.
struct SlotLife {
  int first = 0, last = 0;      // steps
  int written = 0, read = 0;    // positions of the defining node and of the last reader
  bool point_by_point = false;  // the definition writes each element once, where it computes it
  bool memory = false;          // must have an address
};

/// Places all slots. `root_axes`: by step, the axis of its loop or -1. `scalar_axes`: axes that a loop walks
/// one by one.
void place_slots(LoopProgram& program, const std::vector<SlotLife>& lives,
                 const std::vector<std::int32_t>& root_axes, const std::set<std::int32_t>& scalar_axes);

}  // namespace rewire::codegen::cpu
