// Where a NaN or infinity was born: replays a program from the state that the failed run left untouched, and
// names the first tensor that holds one. On the evaluator, in double precision; and where all is finite
// there, on an engine like the one that failed, with a flag beside each tensor: what overflows in f32 alone,
// in a sum's order or within an op.
#pragma once

#include <string>
#include <string_view>

#include "ir/module.h"
#include "runtime/exec/engine.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

/// "parameter 'head.weight' is not finite", "input 'image' is not finite", or "the first non-finite tensor is
/// the result of exp at blocks.3.attn, f32[2,50,192]"; behind "replayed in double precision, every tensor is
/// finite" what the compiled program computed, if that shows it. Values too large for their dtype count as
/// infinite.
std::string first_non_finite(const ir::Module& module, std::string_view function, const Engine& engine,
                             const TensorMap& inputs);

}  // namespace rewire::runtime
