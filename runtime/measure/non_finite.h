// Finds the origin of a NaN or infinity: replays a program from the state that the failed run left
// unchanged, and names the first tensor that is not finite. The replay uses the evaluator, in double
// precision. If all is finite there, an engine like the failed one replays with a flag for each tensor. This
// finds what overflows only in f32, in a sum's order or within an op.
#pragma once

#include <string>
#include <string_view>

#include "ir/module.h"
#include "runtime/exec/engine.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

/// Returns "parameter 'head.weight' is not finite", "input 'image' is not finite", or "the first non-finite
/// tensor is the result of exp at blocks.3.attn, f32[2,50,192]". If only the compiled program shows it, its
/// finding follows "replayed in double precision, every tensor is finite". Values too large for their dtype
/// count as infinite.
std::string first_non_finite(const ir::Module& module, std::string_view function, const Engine& engine,
                             const TensorMap& inputs);

}  // namespace rewire::runtime
