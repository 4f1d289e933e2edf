// The pipeline: all passes that run between a finished program (forward, gradients, optimizer) and codegen,
// in order from top to bottom.
#include <algorithm>
#include <chrono>
#include <utility>

#include "ir/error.h"
#include "ir/passes/canonicalise.h"
#include "ir/passes/channels_last.h"
#include "ir/passes/choose_lowerings.h"
#include "ir/passes/chunk_rows.h"
#include "ir/passes/constant_fold.h"
#include "ir/passes/cse.h"
#include "ir/passes/dce.h"
#include "ir/passes/decompose.h"
#include "ir/passes/fourier.h"
#include "ir/passes/pass.h"
#include "ir/passes/pointwise_convolution.h"
#include "ir/passes/recompute.h"
#include "ir/passes/recompute_blocks.h"
#include "ir/passes/specialise_training.h"
#include "ir/passes/split_pointwise.h"
#include "ir/passes/widen_convolutions.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace rewire::ir {
namespace {

struct Stage {
  std::string_view name;
  PassFunction run;
  std::string_view needed = "";  // why it must not be left out
};

constexpr Stage kStages[] = {
    // A program either trains or does not: is_training becomes the constant true or false.
    {"specialise_training", specialise_training, "nothing else computes is_training"},
    // Chooses the fastest lowering of each op that has several.
    {"choose_lowerings", choose_lowerings},
    // Composites and residual joins become small ops, which all later passes can optimise.
    {"decompose", decompose, "nothing else computes composites and residual joins"},
    // Convolutions, and all ops between them, get the channels-last layout.
    {"channels_last", channels_last},
    // Convolutions with 1 x 1 kernels become matrix products.
    {"pointwise_convolution", pointwise_convolution},
    // Convolutions of bf16 that the backend does not compute become convolutions of f32.
    {"widen_convolutions", widen_convolutions},
    // Fourier transforms become products, or transforms of pairs, if a backend asks for that.
    {"lower_fourier", lower_fourier},
    // Removes what specialise_training made unused (dropout's draws) and what the gradients left unused,
    // before other passes spend work on it.
    {"dce", dce},
    // Algebra brings ops to one form. Then constants fold, and the results are simplified again.
    {"canonicalise", canonicalise},
    {"constant_fold", constant_fold},
    {"canonicalise", canonicalise},
    // Forward and backward share what both compute: a row's mean, rstd, exponentials.
    {"cse", cse},
    // Equal operands are one value now, so more rules match.
    {"canonicalise", canonicalise},
    {"dce", dce},
    // Rows that are wide are computed some at a time, so that they are never held as a whole.
    {"chunk_rows", chunk_rows},
    // Clones into backward what costs less to compute again
    // than to hold. It runs late, because cse would undo it.
    {"recompute", recompute},
    // Computes a value in parts, in the kernels that read the parts, if only its parts are read.
    {"split_pointwise", split_pointwise},
};

void check(const Module& module, std::string_view pass) {
#if defined(REWIRE_DEBUG_CHECKS)
  if (const std::optional<Violation> violation = find_violation(module)) {
    internal_error("after pass {}: {}", pass, violation->message);
  }
#else
  static_cast<void>(module);
  static_cast<void>(pass);
#endif
}

}  // namespace

std::vector<PassInfo> passes() {
  std::vector<PassInfo> all;
  for (const Stage& stage : kStages) {
    const bool again =
        std::any_of(all.begin(), all.end(), [&](const PassInfo& pass) { return pass.name == stage.name; });
    if (!again) all.push_back({stage.name, stage.needed});
  }
  return all;
}

void run_pipeline(Module& module, PassContext& context) {
  if (recompute_mode(module) == Recompute::blocks) context.blocks = block_places(module);
  std::string before = context.on_change ? print(module) : std::string();
  for (const Stage& stage : kStages) {
    if (context.left_out.contains(stage.name)) {
      if (!stage.needed.empty()) user_error("the pass {} cannot be left out: {}", stage.name, stage.needed);
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    stage.run(module, context);
    context.times.push_back({std::string(stage.name), std::chrono::steady_clock::now() - start});
    check(module, stage.name);
    if (!context.on_change) continue;
    std::string after = print(module);
    if (after != before) context.on_change(stage.name, after);
    before = std::move(after);
  }
}

}  // namespace rewire::ir
