// Gradient checkpointing by block (Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016): of a residual
// block's forward values, what its gradients read is computed again, from what the block reads of the values before it.
// So backward holds the inputs of each block, and all else of one block at a time.
//
//   held:   what ops outside of the block read in forward (the stream behind it, values that other blocks read);
//           weights and their copies in another dtype; values that are compared with their own maximum, which would be
//           rounded otherwise (recompute.h)
//   again:  every other value of the block that an op behind the first gradient reads, and what it depends on; cloned
//           in front of the first such op
//
// A block is the place of its joins ("blocks.3"): its ops are those whose locations stand within it. Joins are lowered
// when this runs, so the places are looked up before.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"

namespace rewire::ir {

/// The places of the joins of all functions, each once.
std::vector<std::string> block_places(const Module& module);

/// Whether anything is computed again.
bool recompute_blocks(Function& function, const std::vector<std::string>& places);

}  // namespace rewire::ir
