// Shows patches as colours: the three largest principal components of all patches become red, green and
// blue.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/attribute.h"
#include "ir/types.h"
#include "runtime/analyze/features.h"
#include "runtime/data/vision/png_file.h"

namespace rewire::runtime {

/// Throws UserError for `option` unless the features are patches of a grid.
void require_grid(const FeatureFacts& facts, const char* option);

/// Projects rows [count, width], less their mean, onto the `components` directions of largest variance:
/// [count, components]. Each direction's largest entry is positive. Components beyond what width and rows
/// allow are 0.
std::vector<double> principal_components(std::span<const float> rows, std::size_t width,
                                         std::size_t components);

struct PcaPictures {
  std::span<const float> rows;  // [images, patches, width]
  const FeatureFacts& facts;
  std::span<const float>
      pixels;  // [images, channels, height, width], normalised by `normalize` of `transforms`
  const ir::Shape& image;
  const ir::Attributes& transforms;
};
/// Draws a contact sheet with 4 images a row, each beside its patches. Each component is scaled over all
/// images, so that its least value is 0 and its largest 255.
DrawnImage draw_pca_maps(const PcaPictures& pictures);

}  // namespace rewire::runtime
