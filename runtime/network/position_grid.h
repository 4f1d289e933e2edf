// Position embeddings for another grid of patches, for fine-tuning at another resolution.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/module.h"
#include "models/model.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

/// Layout of a position embedding [1, tokens, width]: `prefix` tokens without a grid position (class
/// tokens), then a grid, row by row.
struct PositionGrid {
  std::int64_t prefix = 0, rows = 0, columns = 0;
};

/// Layouts of an embedding before and after resampling.
struct PositionGrids {
  PositionGrid from, to;
};
/// Finds the layouts of embeddings [1, tokens, width] with `from` and with `to` tokens. Before the grid are
/// all class tokens and registers of `module`, its class tokens only, or none, whichever leaves a grid in
/// both. Returns nothing if none does, or two do. `from` is square. `to` has the shape of the module's
/// images if it has the attributes image_height and image_width; else it is square too.
std::optional<PositionGrids> position_grids(const ir::Module& module, std::int64_t width, std::int64_t from,
                                            std::int64_t to);

/// Resamples `positions` f32|f64|f16|bf16 [1, from.prefix + from.rows from.columns, width] to the grid `to`, in
/// the same dtype. The prefix, which both have, is kept. The grid is interpolated, rows and columns alike, in
/// double precision, with t = (i + 1/2) r, r = from.rows / to.rows (or columns) and Keys' cubic c:
///   timm  y_i = sum_j c((j - t + 1/2) / s) x_j / sum_j c(…),  a = -1/2, s = max(1, r), over the j inside
///         the grid with |j - t + 1/2| < 2 s: torch's interpolate(mode="bicubic", antialias=True), as in
///         resample_abs_pos_embed
///   deit  y_i = sum_j c(j - t + 1/2) x_j,  a = -3/4, over the four nearest j, clamped to the grid: torch's
///         interpolate(mode="bicubic"), with which DeiT and MAE fine-tune
///   pvt   y_i = sum_j max(0, 1 - |j - t + 1/2|) x_j, clamped likewise: interpolate(mode="bilinear"), as in
///         PVT's forward
HostTensor resample_positions(const HostTensor& positions, const PositionGrid& from, const PositionGrid& to,
                              models::PositionRule rule);

}  // namespace rewire::runtime
