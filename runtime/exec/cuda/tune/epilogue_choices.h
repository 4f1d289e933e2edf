// Who computes GELU by tanh, and its gradient, behind a product on a GPU: cuBLASLt with the product, or a
// kernel of ours that reads the product. Chosen once a product's sizes and types, as a tuner chooses, by
// timing on this device; cuBLASLt unless ours gains 3 %. An engine takes the answers from the record. The key
// of a choice (codegen/cost.h), and its answers:
//
//   epilogue gelu|gelu, pre|gelu_gradient MxNxK bf16        cuBLASLt | ours
//
// What is timed is the product with its epilogue and what reads it in a network: a product; and of a gradient
// GELU itself, which a training step computes again in the kernel of ours.
#pragma once

#include <vector>

#include "codegen/program.h"
#include "runtime/exec/tune/tuner.h"

namespace rewire::runtime {

/// Seconds that candidates of all epilogues may run together; what is left then is cuBLASLt's this time, with
/// a line in the log.
inline constexpr double kEpilogueSeconds = 4;

/// How many of those that cuBLASLt refuses were recorded as its own, with a warning in the log: our kernels
/// compute them.
std::int64_t report_refused(const std::vector<codegen::ProductEpilogue>& refused, bool tf32,
                            const Tuner& tuner);

/// Of those that cuBLASLt takes. `tf32`: as the module allows. `make_trial`: on the device. Whether any
/// answer is another than without a choice.
bool choose_epilogues(const std::vector<codegen::ProductEpilogue>& epilogues, bool tf32, Tuner& tuner,
                      const MakeTrial& make_trial);

}  // namespace rewire::runtime
