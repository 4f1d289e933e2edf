// Gradient checkpointing by block (Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016). The
// forward values of a residual block that its gradients read are recomputed from the block's inputs. So
// backward holds each block's inputs, and all other values of one block at a time.
//
//   held:   values that ops outside of the block read in forward (the stream after it, values that other
//           blocks read); weights and their copies in another dtype; values that are compared with their own
//           maximum, which recomputing would round differently (recompute.h)
//   again:  every other value of the block that an op after the first gradient reads, and its dependencies;
//           cloned before the first such op
//
// A block is the place of its joins ("blocks.3"); its ops are those whose locations are within it. Joins are
// already lowered when this runs, so the places are looked up earlier.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"

namespace rewire::ir {

/// Returns the places of the joins of all functions, each once.
std::vector<std::string> block_places(const Module& module);

/// Recomputes the blocks at these places. Returns whether anything is recomputed.
bool recompute_blocks(Function& function, const std::vector<std::string>& places);

}  // namespace rewire::ir
