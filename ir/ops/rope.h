// Rotary position embeddings; ops.def has the op.
#pragma once

#include "ir/builder.h"

namespace rewire::ir {

/// Emits x, of the type of `rope`'s operand in f32 at least, rotated by direction (1 or -1) times the op's
/// angles.
Value emit_rotated(Builder& builder, const Op& rope, Value x, double direction);

}  // namespace rewire::ir
