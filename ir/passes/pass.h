// A pass is a function over the module, in one .h/.cpp pair with its rewrite equations in the header
// comment. Only the pipeline (ir/passes/pipeline.cpp) decides which passes run, and in what order.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/choice.h"
#include "ir/module.h"
#include "ir/ops/convolution.h"
#include "ir/ops/fourier.h"
#include "ir/passes/left_out.h"

namespace rewire::ir {

struct PassTime {
  std::string pass;
  std::chrono::duration<double> seconds{};
};

/// A backend's cost of recomputing a value (recompute.h). The defaults suit a CPU, where about 5 flops take
/// as long as a byte.
struct RecomputeCost {
  std::int64_t flops_per_byte = 8;  // flops that take as long as moving one byte
  std::int64_t worth = 2;           // bytes of traffic that one byte less at the peak is worth
  bool takes_best_chain = false;    // take the best worthwhile chain; false: the one that holds least
};

struct PassContext {
  Chooser* chooser = nullptr;  // answers choices by timing; nullptr: the cost model's favourites
  /// Returns how a backend computes these transforms; if empty they stay ops.
  std::function<FourierWay(const FourierRows&)> fourier;
  /// Returns whether a backend computes this convolution, or gradient of one, in bf16; empty: none.
  NarrowConvolution narrow_convolution;
  RecomputeCost recompute;
  std::int64_t chunk_bytes = 0;  // of a chunk of wide rows (chunk_rows.h); 0: rows stay whole
  std::vector<std::string>
      blocks;        // places of the network's blocks (recompute_blocks.h); run_pipeline fills it
  LeftOut left_out;  // passes that are not run; UserError for one that is needed
  /// Receives the pass name and the printed module after each pass that changed it (--print-after-all).
  std::function<void(std::string_view pass, const std::string& text)> on_change;
  /// Times for --time-passes, in order.
  std::vector<PassTime> times;
};

using PassFunction = void (*)(Module&, PassContext&);

struct PassInfo {
  std::string_view name;
  std::string_view needed;  // the reason why it cannot be left out; "": it can
};
/// Returns the passes of run_pipeline, each once, in order of their first run.
std::vector<PassInfo> passes();

/// Runs the simplifications of a step's program in order; see pipeline.cpp. Verifies after each pass in
/// debug builds.
void run_pipeline(Module& module, PassContext& context);

}  // namespace rewire::ir
