// What is trained on the features of another network, to tell what is in them.
#pragma once

#include <cstdint>

#include "ir/module.h"

namespace rewire::models {

struct LinearProbe {
  std::int64_t width = 0, classes = 0;
  bool norm = false;  // a batch norm without weight and bias in front, as MAE's linear probe has it
};
/// forward(image: f32[batch, width]) -> (logits: f32[batch, classes]): one linear layer, `head`.
ir::Module linear_probe(const LinearProbe& settings, std::int64_t batch);

struct DenseProbe {
  std::int64_t width = 0, classes = 0;
  std::int64_t rows = 0, columns = 0;          // of patches
  std::int64_t height = 0, image_columns = 0;  // in pixels
  bool norm = false;
};
/// forward(image: f32[batch, rows columns, width]) -> (logits: f32[batch, classes, height, image_columns]): one linear
/// layer of each patch, `head`, whose logits are interpolated between the patches' middles (bilinear, as PyTorch's
/// interpolate has it without align_corners).
ir::Module dense_probe(const DenseProbe& settings, std::int64_t batch);

}  // namespace rewire::models
