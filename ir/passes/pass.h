// What a pass is: a function over the module. One .h/.cpp pair a pass, its rewrite equations in the header
// comment. The pipeline (ir/passes/pipeline.cpp) is the one place that says which run, and in what order.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/choice.h"
#include "ir/module.h"
#include "ir/ops/fourier.h"
#include "ir/passes/left_out.h"

namespace rewire::ir {

struct PassTime {
  std::string pass;
  std::chrono::duration<double> seconds{};
};

/// What a backend pays for having a value again (recompute.h). The defaults are a CPU's, about 5 of whose
/// flops take as long as a byte.
struct RecomputeCost {
  std::int64_t flops_per_byte = 8;  // that take as long as moving one byte
  std::int64_t worth = 2;           // bytes of traffic that one byte less at the peak is worth
  bool takes_best_chain = false;    // of two that are worth it; false: the one that holds least
};

struct PassContext {
  bool training = false;       // what is_training folds to
  Chooser* chooser = nullptr;  // answers what timing decides; nullptr: the cost model's favourites
  /// How a backend computes these transforms; without it they stay ops.
  std::function<FourierWay(const FourierRows&)> fourier;
  RecomputeCost recompute;
  std::vector<std::string>
      blocks;        // places of the network's blocks (recompute_blocks.h); run_pipeline fills it
  LeftOut left_out;  // passes that are not run; UserError for one that is needed
  /// Called with the pass name and the printed module after each pass that changed it (--print-after-all).
  std::function<void(std::string_view pass, const std::string& text)> on_change;
  /// --time-passes: filled in order.
  std::vector<PassTime> times;
};

using PassFunction = void (*)(Module&, PassContext&);

struct PassInfo {
  std::string_view name;
  std::string_view needed;  // why it cannot be left out; "": it can
};
/// The passes that run_pipeline runs, each once, in order of their first run.
std::vector<PassInfo> passes();

/// The forward-to-step simplifications, in their order; see pipeline.cpp. Verifies after each pass in debug
/// builds.
void run_pipeline(Module& module, PassContext& context);

}  // namespace rewire::ir
