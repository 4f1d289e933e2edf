// Chooses how a GPU computes GELU by tanh, and its gradient, after a product: by cuBLASLt with the product,
// or by our kernel, which reads the product. A tuner chooses once for a product's sizes and types, by timing
// on this device; cuBLASLt unless our kernel gains 3 %. An engine takes the answers from the record. Keys
// (codegen/cost.h) and answers:
//
//   epilogue gelu|gelu, pre|gelu_gradient MxNxK bf16        cuBLASLt | ours
//
// Timing covers the product with its epilogue and the product that reads it in a network. For a gradient it
// adds GELU itself, which a training step computes again in our kernel.
#pragma once

#include <vector>

#include "codegen/program.h"
#include "runtime/exec/tune/tuner.h"

namespace rewire::runtime {

/// The most seconds that candidates of all epilogues may run together. The remaining ones use cuBLASLt this
/// time, with a line in the log.
inline constexpr double kEpilogueSeconds = 4;

/// Returns how many epilogues that cuBLASLt refuses were recorded as its own, with a warning in the log: our
/// kernels compute them.
std::int64_t report_refused(const std::vector<codegen::ProductEpilogue>& refused, bool tf32,
                            const Tuner& tuner);

/// Chooses for epilogues that cuBLASLt takes. `tf32` is the module's; `make_trial` makes trials on the
/// device. Returns true if any answer differs from the default.
bool choose_epilogues(const std::vector<codegen::ProductEpilogue>& epilogues, bool tf32, Tuner& tuner,
                      const MakeTrial& make_trial);

}  // namespace rewire::runtime
