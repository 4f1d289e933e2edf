// The shared memory of a block kernel: the layout of each array, and which arrays share bytes because they
// are in use at different times.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/cuda/blocks_plan.h"

namespace rewire::codegen::cuda {

/// Returns the array of a value with lanes; its offset is not set yet. `computed`: it is not a load's.
SharedArray shared_array(const tile::Kernel& kernel, const tile::ValueInfo& of, bool narrow, bool computed);
/// Returns the narrow array of a value of two lanes that holds `window` points of one of them: two windows of
/// a load's rows, or one of a computed value's columns.
SharedArray window_array(const tile::Kernel& kernel, const tile::ValueInfo& of, std::int64_t window,
                         bool computed);

/// Returns the array of sums over the rows of products: a row of partial sums for each of the tiles.
SharedArray row_sums_array(const tile::Kernel& kernel, const tile::ValueInfo& of, std::int64_t row_tiles);

/// The life of an array, from the step that writes it to the last step that reads it.
struct ArrayLife {
  int begin = 0, end = 0;
  std::int32_t array = -1;
};

/// Sets the offsets of the arrays in `lives`: in the order in which they are written, or the largest first if
/// that takes fewer bytes. Returns the bytes of all, the block's scratch included.
std::int64_t place_arrays(std::vector<ArrayLife> lives, std::vector<SharedArray>& arrays);

}  // namespace rewire::codegen::cuda
