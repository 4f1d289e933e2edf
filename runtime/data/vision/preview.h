// Shows a network's input as pictures: un-normalised batches and transformed images.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/attribute.h"
#include "runtime/data/batch.h"
#include "runtime/data/vision/contact_sheet.h"

namespace rewire::runtime {

/// Converts floats that `normalize` made by the mean and std of [transforms] back to bytes, rounded to the
/// nearest and clipped to [0, 255]. `pixels` are f32 [channels, height, width]; a number that is not finite
/// becomes 0.
std::vector<std::uint8_t> unnormalised(std::span<const float> pixels, std::int64_t channels,
                                       const ir::Attributes& transforms);

/// A label and its probability in a target.
struct ClassShare {
  std::int64_t label = 0;
  float probability = 1;
};

/// The images of a batch on a sheet, 8 per row. They keep their size or are enlarged by a whole number until
/// the longer side has 96 pixels. Below a row of images are its views: a row for each view of every other
/// tensor f32 [views, batch, channels, height, width], in the order of the tensors' names.
struct BatchPreview {
  DrawnImage sheet;
  std::int64_t rows = 0, columns = 0;         // grid of images, without views
  std::int64_t views = 0;                     // rows of views below each row
  std::vector<std::vector<ClassShare>> told;  // per image: its label, or its target's two largest shares
};

/// Previews the batch's first `images` without padding.
BatchPreview preview_batch(const Batch& batch, const ir::Attributes& transforms, std::int64_t images);

struct TryOptions {
  std::int64_t count = 8;   // draws
  std::int64_t size = 224;  // height and width of the network's images
  std::uint64_t seed = 0;
};
/// Draws an image, u8 [channels, height, width], and after it `count` draws of the training transforms, 9
/// per row. Without transforms.resize, a larger image is first scaled down into size x size, which becomes
/// the network's size. Throws UserError naming the key, and on transforms of whole batches.
DrawnImage try_transforms(const DrawnImage& image, const ir::Attributes& transforms,
                          const TryOptions& options);

}  // namespace rewire::runtime
