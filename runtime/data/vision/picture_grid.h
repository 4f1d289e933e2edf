// Draws a network's images as one picture.
#pragma once

#include <cstdint>
#include <span>

#include "ir/attribute.h"
#include "runtime/data/vision/png_file.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

/// Draws rows of images: row i has image i of each of `columns`, in their order. `columns` are f32 [N,
/// channels, height, width] of one shape. They are un-normalised by the mean and std of [transforms], and
/// enlarged by a whole number until the longer side has 96 pixels.
DrawnImage picture_rows(std::span<const HostTensor> columns, std::int64_t rows,
                        const ir::Attributes& transforms);

/// Draws the images row by row, `columns` per row.
DrawnImage picture_grid(const HostTensor& images, std::int64_t columns, const ir::Attributes& transforms);

}  // namespace rewire::runtime
