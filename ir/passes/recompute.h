// What backward needs of forward is either held in memory until then or computed again. This pass chooses,
// and clones the chains that are computed again next to their first user behind the peak: a plain rewrite of
// the IR. It runs behind CSE, which would undo it.
//
// The peak is the op during which most bytes live: in a training step, where forward ends. A value held
// across it can be computed again if it comes by cheap ops (pointwise, random, and shape ops that move no
// data or transpose) from leaves: arguments, parameters, and values that are held anyway or would have to be
// held instead. Then, in bytes,
//
//   gain(v) = bytes(v) - bytes(leaves that were not held)
//   cost(v) = flops(chain) / flops_per_byte
//           + bytes(v), if it is written again: a user behind the peak needs it in memory (a contraction,
//             attention), or kernels on both sides of a contraction read it
//           - bytes(v), if forward would write it for backward alone
//           + bytes(leaves) that forward would have to write in its stead
//           + what the leaves' bytes exceed bytes(v) by: they are read instead of v
//   v is computed again  iff  cost(v) <= worth · gain(v), and gain(v) > 0 or cost(v) < worth · gain(v).
//
// So a norm's centred input is computed from the stream, which forward writes anyway: that frees no memory,
// but spares a write. A chain starts from leaves that are held already if that is worth it, else from what
// forward writes anyway; where a backend takes the best chain, from where worth · gain - cost is larger.
//
// Values are decided in order of definition, so a chain may build on one that is computed again too, and its
// cost is then that of the whole chain. A function whose peak does not fall stays as it was.
//
// Where blocks are computed again, the same is tried behind that and without it, and the smallest peak stays: a block
// whose inner values are few, as of convolutions, or a batch too small to outweigh the weights' gradients, may leave
// more to cheap chains than to blocks.
#pragma once

#include <cstdint>

#include "ir/passes/pass.h"

namespace rewire::ir {

/// How much is computed again: what is cheap, by the rules above; nothing; or all of each block
/// (recompute_blocks.h). It stands in the module's attribute "recompute", and holds for every program.
enum class Recompute : std::uint8_t { cheap, none, blocks };
Recompute recompute_mode(const Module& module);
void set_recompute(Module& module, Recompute mode);

void recompute(Module& module, PassContext& context);

/// The most bytes that live at once, in the order of the body: every value from its definition to its last
/// use, without arguments, parameters, constants, and shape ops that are views. What recompute lowers.
std::int64_t peak_bytes(const Function& function);

}  // namespace rewire::ir
