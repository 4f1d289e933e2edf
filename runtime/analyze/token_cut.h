// Finds objects without labels: Wang et al., Self-Supervised Transformers for Unsupervised Object Discovery
// using Normalized Cut (TokenCut, CVPR 2022). The normalised cut of a graph of patches separates an object
// from the rest.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rewire::runtime {

struct TokenCutOptions {
  double tau = 0.2;  // patches whose cosine exceeds it belong together
};

/// A box in pixels: [x0, x1) by [y0, y1).
struct PixelBox {
  std::int64_t x0 = 0, y0 = 0, x1 = 0, y1 = 0;
  bool operator==(const PixelBox&) const = default;
};

struct TokenCut {
  std::vector<double> vector = {};      // [patches], the second smallest eigenvector
  std::vector<std::uint8_t> mask = {};  // [patches], 1 in the foreground
  std::int64_t seed = 0;                // the patch with the largest absolute entry
  PixelBox box = {};                    // around the seed's connected part of the foreground, in patches
};

/// Cuts the features [rows * columns, width] of one image. With E_ij = 1 if cos(f_i, f_j) > tau, else 1e-5,
/// and D the diagonal of its row sums, y is the eigenvector of (D - E) y = lambda D y for the second
/// smallest lambda. The foreground is the side of y's mean that has its largest absolute entry. The box
/// holds the part of the foreground that is connected to that patch over edges (4 neighbours). If all
/// patches belong together, or none to another, all are foreground and y is 0. Throws UserError for fewer
/// than two patches.
TokenCut token_cut(std::span<const float> features, std::int64_t rows, std::int64_t columns,
                   const TokenCutOptions& options);

/// Returns the intersection over union; 0 if both boxes are empty.
double box_iou(const PixelBox& a, const PixelBox& b);

/// Returns the share of images whose box overlaps one of its true boxes by more than half (IoU > .5).
double correct_localisation(std::span<const PixelBox> found, std::span<const std::vector<PixelBox>> truth);

}  // namespace rewire::runtime
