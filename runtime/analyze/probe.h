// Probes: small networks that are trained on the features of another network, which stays fixed. The
// features are computed once; an engine trains the probe with the programs of programs/.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/module.h"

namespace rewire::runtime {

struct ProbeTraining {
  std::string optimizer = "adamw";
  double lr = 0.01, weight_decay = 0.01;
  double warmup = 0;  // epochs of linear warm-up from 0; then half a cosine to 0
  std::int64_t epochs = 200, batch = 1024;
  std::uint64_t seed = 0;
  std::string engine = "jit";
  int threads = 0;
};

/// Features f32 [images, …] of some images, and their labels i64 [images, …].
struct ProbeSet {
  std::span<const float> rows;
  std::span<const std::int64_t> labels;
  std::int64_t images = 0;
};

struct ProbeOutcome {
  double train_loss = 0;  // mean over the last epoch's steps
  double loss = 0;        // on the test set, like the metrics below
  /// Metrics that the objective has. top5 is 1 if it is always right for so few classes
  /// (programs::tells_top5).
  double top1 = 0, top5 = 1, pixel_accuracy = 0, mean_iou = 0;
};

/// Trains a linear probe. Each epoch draws one of the training sets and visits its images in a new order; an
/// incomplete last batch is dropped. Throws UserError if a step is not finite, and on a setting out of
/// range, by the recipe's key.
ProbeOutcome train_linear_probe(const std::vector<ProbeSet>& train, const ProbeSet& test,
                                std::int64_t classes, bool norm, const ProbeTraining& training);

/// A grid of patches, rows x columns, and of labelled pixels, height x image_columns; 255 is ignored.
struct DenseShape {
  std::int64_t rows = 0, columns = 0, height = 0, image_columns = 0;
};
ProbeOutcome train_dense_probe(const ProbeSet& train, const ProbeSet& test, std::int64_t classes, bool norm,
                               const DenseShape& shape, const ProbeTraining& training);

/// Returns the mean intersection over union of the classes that occur as label or prediction. `confusion`
/// counts pixels by label (row) and prediction (column), [classes, classes].
double mean_iou(std::span<const std::int64_t> confusion, std::size_t classes);

}  // namespace rewire::runtime
