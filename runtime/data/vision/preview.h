// What a network is going to see, as pictures: batches and transformed images, un-normalised.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/attribute.h"
#include "runtime/data/batch.h"
#include "runtime/data/vision/contact_sheet.h"

namespace rewire::runtime {

/// Bytes of the floats that `normalize` made by the mean and std of [transforms]: rounded to the nearest, and cut off
/// at 0 and 255. `pixels` are f32 [channels, height, width]; a number that is not finite becomes 0.
std::vector<std::uint8_t> unnormalised(std::span<const float> pixels, std::int64_t channels,
                                       const ir::Attributes& transforms);

/// A label with the probability that a target gives it.
struct ClassShare {
  std::int64_t label = 0;
  float probability = 1;
};

/// The images of a batch on a sheet, 8 a row, each as large as it is, or enlarged by a whole number until its longer
/// side has 96 pixels. Below a row of images come those of every other tensor f32 [views, batch, channels, height,
/// width], a row for each view, in the order of the tensors' names.
struct BatchPreview {
  DrawnImage sheet;
  std::int64_t rows = 0, columns = 0;         // of images, without views
  std::int64_t views = 0;                     // rows below each
  std::vector<std::vector<ClassShare>> told;  // of each image: its label, or its target's two largest shares
};

/// Of the batch's first `images` that are no padding.
BatchPreview preview_batch(const Batch& batch, const ir::Attributes& transforms, std::int64_t images);

struct TryOptions {
  std::int64_t count = 8;   // draws
  std::int64_t size = 224;  // height and width of the network that transforms are made for
  std::uint64_t seed = 0;
};
/// An image, u8 [channels, height, width], and behind it `count` draws of the transforms as training makes them, 9 a
/// row. Without transforms.resize a larger image is scaled down into size x size first, and the network takes what
/// comes of it. UserError naming the key; on transforms of whole batches.
DrawnImage try_transforms(const DrawnImage& image, const ir::Attributes& transforms,
                          const TryOptions& options);

}  // namespace rewire::runtime
