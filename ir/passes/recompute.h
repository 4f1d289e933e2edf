// Backward either keeps forward's values in memory or computes them again. This pass chooses, and clones the
// recomputed chains next to their first user after the peak: a plain rewrite of the IR. It runs after CSE,
// which would undo it.
//
// The peak is the op during which most bytes are live; in a training step it is at the end of forward. A
// value held across it can be recomputed if cheap ops (pointwise, random, and shape ops that move no data or
// transpose) compute it from leaves: arguments, parameters, and values that are held anyway or would have to
// be held instead. Then, in bytes,
//
//   gain(v) = bytes(v) - bytes(leaves that were not held)
//   cost(v) = flops(chain) / flops_per_byte
//           + bytes(v), if it is written again: a user after the peak needs it in memory (a contraction,
//             attention), or kernels on both sides of a contraction read it
//           - bytes(v), if forward would write it for backward alone
//           + bytes(leaves) that forward would have to write in its place
//           + the leaves' bytes beyond bytes(v): they are read instead of v
//   v is recomputed  iff  cost(v) <= worth · gain(v), and gain(v) > 0 or cost(v) < worth · gain(v).
//
// So a norm's centred input is computed from the stream, which forward writes anyway: that frees no memory,
// but spares a write. A chain starts from leaves that are held already if that is worth it, else from values
// that forward writes anyway. If the backend takes the best chain, it starts where worth · gain - cost is
// larger.
//
// Values are decided in order of definition. So a chain may include recomputed values, and its cost is then
// the cost of the whole chain. A function whose peak does not fall stays unchanged.
//
// If blocks are recomputed, this is also tried after that and without it, and the smallest peak wins. Chains
// alone may do better for a block with few inner values, such as a block of convolutions, or for a batch too
// small to outweigh the weights' gradients.
#pragma once

#include <cstdint>

#include "ir/passes/pass.h"

namespace rewire::ir {

/// The extent of recomputation: cheap chains, by the rules above; none; or each block as a whole
/// (recompute_blocks.h). The module's attribute "recompute" holds it for every program.
enum class Recompute : std::uint8_t { cheap, none, blocks };
Recompute recompute_mode(const Module& module);
void set_recompute(Module& module, Recompute mode);

void recompute(Module& module, PassContext& context);

/// Returns the most bytes that are live at once, in body order: every value from its definition to its last
/// use, without arguments, parameters, constants, and shape ops that are views. Recompute lowers it.
std::int64_t peak_bytes(const Function& function);

}  // namespace rewire::ir
