// Patches as colours: the three largest principal components of all patches of some images, as red, green and blue.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/attribute.h"
#include "ir/types.h"
#include "runtime/analyze/features.h"
#include "runtime/data/vision/png_file.h"

namespace rewire::runtime {

/// UserError, for `option`, where the features are no patches of a grid.
void require_grid(const FeatureFacts& facts, const char* option);

/// Of rows [count, width]: less their mean, along the `components` directions of largest variance, [count, components];
/// each direction's largest entry is positive. Less directions than width and rows allow are zeros.
std::vector<double> principal_components(std::span<const float> rows, std::size_t width,
                                         std::size_t components);

struct PcaPictures {
  std::span<const float> rows;  // [images, patches, width]
  const FeatureFacts& facts;
  std::span<const float>
      pixels;  // [images, channels, height, width], as `normalize` of `transforms` made them
  const ir::Shape& image;
  const ir::Attributes& transforms;
};
/// A contact sheet, 4 images a row: each beside its patches, whose components are scaled so that the least is 0 and the
/// largest 255 over all images.
DrawnImage draw_pca_maps(const PcaPictures& pictures);

}  // namespace rewire::runtime
