// Probes: small networks that are trained on the features of another one, which stays as it is. The features are computed
// once; training is the engine's, by the programs of programs/.
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
  double warmup = 0;  // epochs of linear growth from 0; then half a cosine to 0
  std::int64_t epochs = 200, batch = 1024;
  std::uint64_t seed = 0;
  std::string engine = "jit";
  int threads = 0;
};

/// What a probe sees of some images: f32 [images, …], and labels i64 [images, …].
struct ProbeSet {
  std::span<const float> rows;
  std::span<const std::int64_t> labels;
  std::int64_t images = 0;
};

struct ProbeOutcome {
  double train_loss = 0;  // mean of the last epoch's steps
  double loss = 0;        // on the test set; and, as the objective has them:
  /// top5 is 1 where so few classes are told apart that it is always right (programs::tells_top5).
  double top1 = 0, top5 = 1, pixel_accuracy = 0, mean_iou = 0;
};

/// One of the training sets is drawn for each epoch, and its images in a new order; what is no whole batch is left out.
/// UserError where a step is not finite, and on a setting out of range, by the recipe's key of the same meaning.
ProbeOutcome train_linear_probe(const std::vector<ProbeSet>& train, const ProbeSet& test,
                                std::int64_t classes, bool norm, const ProbeTraining& training);

/// Patches of a grid, and a label for each pixel; 255 counts for nothing.
struct DenseShape {
  std::int64_t rows = 0, columns = 0, height = 0, image_columns = 0;
};
ProbeOutcome train_dense_probe(const ProbeSet& train, const ProbeSet& test, std::int64_t classes, bool norm,
                               const DenseShape& shape, const ProbeTraining& training);

/// Pixels by label (row) and prediction (column), [classes, classes]: the mean over classes that occur in either of
/// intersection over union.
double mean_iou(std::span<const std::int64_t> confusion, std::size_t classes);

}  // namespace rewire::runtime
