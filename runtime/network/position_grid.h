// Position embeddings for a grid of patches of another extent, as fine-tuning at another resolution takes them.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/module.h"
#include "models/model.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

/// How a position embedding [1, tokens, width] is laid out: some tokens that stand on no grid (class tokens), then
/// a square grid, row by row.
struct PositionGrid {
  std::int64_t prefix = 0, side = 0;
};

/// Those of embeddings [1, tokens, width] of `from` tokens and of `to`, for a network that has the class tokens and
/// registers of `module`: all of them, the class tokens alone or none stand before the grid, whichever leaves a square
/// of both. Nothing where none does, or two.
struct PositionGrids {
  PositionGrid from, to;
};
std::optional<PositionGrids> position_grids(const ir::Module& module, std::int64_t width, std::int64_t from,
                                            std::int64_t to);

/// `positions` f32|f64|f16|bf16 [1, from.prefix + from.side^2, width] for a grid of to_side^2, of its dtype. The
/// prefix is kept. The grid is interpolated, rows and columns alike, in double precision, with t = (i + 1/2) r,
/// r = from.side / to_side and Keys' cubic c:
///   timm  y_i = sum_j c((j - t + 1/2) / s) x_j / sum_j c(…),  a = -1/2, s = max(1, r), over the j inside the grid with
///         |j - t + 1/2| < 2 s: torch's interpolate(mode="bicubic", antialias=True), as resample_abs_pos_embed calls it
///   deit  y_i = sum_j c(j - t + 1/2) x_j,  a = -3/4, over the four nearest j, those outside the grid at its edge:
///         torch's interpolate(mode="bicubic"), which DeiT and MAE fine-tune with
///   pvt   y_i = sum_j max(0, 1 - |j - t + 1/2|) x_j, likewise: interpolate(mode="bilinear"), as PVT's forward has it
HostTensor resample_positions(const HostTensor& positions, const PositionGrid& from, std::int64_t to_side,
                              models::PositionRule rule);

}  // namespace rewire::runtime
