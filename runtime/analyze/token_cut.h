// Objects without labels: Wang et al., Self-Supervised Transformers for Unsupervised Object Discovery using Normalized Cut
// (TokenCut, CVPR 2022). Patches are a graph, whose normalised cut separates an object from the rest.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rewire::runtime {

struct TokenCutOptions {
  double tau = 0.2;  // patches whose cosine is above it belong together
};

/// A box in pixels: [x0, x1) by [y0, y1).
struct PixelBox {
  std::int64_t x0 = 0, y0 = 0, x1 = 0, y1 = 0;
  bool operator==(const PixelBox&) const = default;
};

struct TokenCut {
  std::vector<double> vector = {};      // [patches], the second smallest eigenvector
  std::vector<std::uint8_t> mask = {};  // [patches], 1 in the foreground
  std::int64_t seed = 0;                // the patch of the largest absolute entry
  PixelBox box = {};                    // of the seed's connected part of the foreground, in patches
};

/// Features [rows * columns, width] of one image. With E_ij = 1 where cos(f_i, f_j) > tau, else 1e-5, and D the diagonal
/// of its row sums, y is the eigenvector of (D - E) y = lambda D y of the second smallest lambda; the foreground is the
/// side of its mean that has its largest absolute entry, and the box holds the part of it that is joined to that patch
/// over edges (4 neighbours). Where all patches belong together there is nothing to cut: all of them are foreground, and y
/// is 0. UserError for fewer than two patches.
TokenCut token_cut(std::span<const float> features, std::int64_t rows, std::int64_t columns,
                   const TokenCutOptions& options);

/// Intersection over union; 0 where both are empty.
double box_iou(const PixelBox& a, const PixelBox& b);

/// The share of images whose box overlaps one of theirs by more than half (IoU > .5).
double correct_localisation(std::span<const PixelBox> found, std::span<const std::vector<PixelBox>> truth);

}  // namespace rewire::runtime
