// Probes: small networks that are trained on the features of another network to measure their content.
#pragma once

#include <cstdint>

#include "ir/module.h"

namespace rewire::models {

struct LinearProbe {
  std::int64_t width = 0, classes = 0;
  bool norm = false;  // adds a batch norm without weight and bias in front, as MAE's linear probe
};
/// Builds forward(image: f32[batch, width]) -> (logits: f32[batch, classes]) with one linear layer, `head`.
ir::Module linear_probe(const LinearProbe& settings, std::int64_t batch);

struct DenseProbe {
  std::int64_t width = 0, classes = 0;
  std::int64_t rows = 0, columns = 0;          // patches
  std::int64_t height = 0, image_columns = 0;  // pixels
  bool norm = false;
};
/// Builds forward(image: f32[batch, rows columns, width]) -> (logits: f32[batch, classes, height,
/// image_columns]). One linear layer, `head`, classifies each patch. The logits are interpolated between the
/// centres of the patches (bilinear, as PyTorch's interpolate without align_corners).
ir::Module dense_probe(const DenseProbe& settings, std::int64_t batch);

}  // namespace rewire::models
