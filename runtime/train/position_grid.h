// Position embeddings for a grid of patches of another extent, as fine-tuning at another resolution takes them.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/module.h"
#include "runtime/host_tensor.h"

namespace rewire::runtime {

/// How a position embedding [1, tokens, width] is laid out: some tokens that stand on no grid (class tokens), then
/// a square grid, row by row.
struct PositionGrid {
  std::int64_t prefix = 0, side = 0;
};

/// That of an embedding of `tokens` for a network that has the class tokens of `module`. Nothing where what is left
/// of the tokens is no square.
std::optional<PositionGrid> position_grid(const ir::Module& module, std::int64_t tokens);

/// `positions` f32|f64|f16|bf16 [1, from.prefix + from.side^2, width] for a grid of to_side^2, of its dtype. The
/// prefix is kept. The grid is interpolated by Keys' cubic, a = -1/2, rows and columns alike, in double precision:
///   y_i = sum_j c((j - t + 1/2) / s) x_j / sum_j c(…),  t = (i + 1/2) r,  s = max(1, r),  r = from.side / to_side
/// over the j inside the grid with |j - t + 1/2| < 2 s: torch's interpolate(mode="bicubic", antialias=True), which
/// timm's resample_abs_pos_embed calls.
HostTensor resample_positions(const HostTensor& positions, const PositionGrid& from, std::int64_t to_side);

}  // namespace rewire::runtime
