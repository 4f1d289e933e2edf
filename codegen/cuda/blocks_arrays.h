// Shared memory of a block kernel: how an array lies in it, and which arrays share bytes because they are
// read at different times.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/cuda/blocks_plan.h"

namespace rewire::codegen::cuda {

/// The array of a value with lanes, without a place yet.
SharedArray shared_array(const tile::Kernel& kernel, const tile::ValueInfo& of, bool narrow);

/// From the step that writes an array to the last that reads it.
struct ArrayLife {
  int begin = 0, end = 0;
  std::int32_t array = -1;
};

/// Sets the offsets of the arrays that live; returns the bytes of them all, with the block's scratch.
std::int64_t place_arrays(std::vector<ArrayLife> lives, std::vector<SharedArray>& arrays);

}  // namespace rewire::codegen::cuda
