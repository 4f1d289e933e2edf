// The pipeline: every pass that runs between a finished program (forward, gradients, optimizer) and codegen,
// in order. Read it from top to bottom.
#include <algorithm>
#include <chrono>
#include <utility>

#include "ir/error.h"
#include "ir/passes/canonicalise.h"
#include "ir/passes/channels_last.h"
#include "ir/passes/choose_lowerings.h"
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
#include "ir/text.h"
#include "ir/verify.h"

namespace rewire::ir {
namespace {

struct Stage {
  std::string_view name;
  PassFunction run;
  std::string_view needed = "";  // why it cannot be left out
};

constexpr Stage kStages[] = {
    // Each program trains or does not: is_training becomes true or false.
    {"specialise_training", specialise_training, "nothing else computes is_training"},
    // Where an op has several lowerings, the fastest is asked for.
    {"choose_lowerings", choose_lowerings},
    // Composites and residual joins become small ops, so that all that follows sees through them.
    {"decompose", decompose, "nothing else computes composites and residual joins"},
    // Convolutions, and all between them, have their channels last.
    {"channels_last", channels_last},
    // Those of one pixel are products then.
    {"pointwise_convolution", pointwise_convolution},
    // Where a backend asks for it, Fourier transforms too.
    {"lower_fourier", lower_fourier},
    // What training does not need (dropout's draws) and what the gradients left unused goes, before work is
    // spent on it.
    {"dce", dce},
    // Algebra to one form; constants then fold, and what they became is simplified again.
    {"canonicalise", canonicalise},
    {"constant_fold", constant_fold},
    {"canonicalise", canonicalise},
    // Forward and backward share what both compute: a row's mean, rstd, exponentials.
    {"cse", cse},
    // Equal operands are one value now, which more rules match.
    {"canonicalise", canonicalise},
    {"dce", dce},
    // What backward can have again for less than it costs to hold is cloned there; late, or cse would undo
    // it.
    {"recompute", recompute},
    // What only its parts are read of is computed in parts, in the kernels that read them.
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
