// What a residual stream and its branches are, join by join, and how many directions the features use: the
// quantities of Oh et al. (2025), Revisiting Residual Connections, and of Zhang et al. (2025), Residual
// Connections Harm Generative Representation Learning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/exec/engine.h"

namespace rewire::runtime {

/// Means over images and positions; at each position x is the stream before the join (after a projection,
/// where there is one), f what the branch gave, whatever a plugin makes of both, and
/// f = parallel + perpendicular with parallel = x <x, f> / |x|^2. Where x or f is 0, the cosine is.
struct JoinStream {
  std::string join;               // "stages.2.blocks.1.conv"
  double stream = 0, branch = 0;  // |x|^2, |f|^2
  double parallel = 0;            // |parallel|^2
  double cosine = 0;              // <x, f> / (|x| |f|)
  double perpendicular() const { return branch - parallel; }
};

struct StreamStatistics {
  std::vector<JoinStream> joins;
  std::int64_t images = 0;
  std::int64_t features =
      0;  // numbers an image, that the classifier reads; 0: it reads no vector of an image
  double effective_rank = 0;  // of theirs; 0 without any
};

/// Adds the program streams: forward's arguments -> "stream.J", "branch.J", "parallel.J", "cosine.J" of join J,
/// scalars; and "features" [batch, width], what the last product before `logits` reads, where that has two axes.
/// UserError if the network has no residual joins.
void add_streams_program(ir::Module& module);

/// The next batch's arguments of the program, or none.
using NextBatch = std::function<bool(TensorMap& arguments)>;

/// Runs the program of `module` on these batches.
StreamStatistics measure_streams(const ir::Module& module, Engine& engine, const NextBatch& next);

/// -sum p ln p, where p are the eigenvalues of the samples' covariance divided by their sum: of `rows` samples
/// of `features`, each less its own mean. At most ln min(rows, columns); 0 for samples that are constant.
double effective_rank(std::span<const double> features, std::size_t rows, std::size_t columns);

}  // namespace rewire::runtime
