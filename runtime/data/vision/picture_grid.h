// Images that a network sees or makes as one picture.
#pragma once

#include <cstdint>
#include <span>

#include "ir/attribute.h"
#include "runtime/data/vision/png_file.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

/// Un-normalised by the mean and std of [transforms], each as large as it is, or enlarged by a whole number until its
/// longer side has 96 pixels. `columns` are f32 [N, channels, height, width] of one shape each: row i has image i of every
/// one of them, in their order.
DrawnImage picture_rows(std::span<const HostTensor> columns, std::int64_t rows,
                        const ir::Attributes& transforms);

/// Row by row, `columns` of them a row.
DrawnImage picture_grid(const HostTensor& images, std::int64_t columns, const ir::Attributes& transforms);

}  // namespace rewire::runtime
