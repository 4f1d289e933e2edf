// Arrays in shared memory; see blocks_arrays.h.
#include "codegen/cuda/blocks_arrays.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "codegen/cuda/kernel_text.h"

namespace rewire::codegen::cuda {
namespace {

std::int64_t first_gap(const std::vector<ArrayLife>& placed, const std::vector<SharedArray>& arrays,
                       const ArrayLife& life) {
  std::vector<std::pair<std::int64_t, std::int64_t>> taken;
  for (const ArrayLife& other : placed) {
    if (other.end < life.begin || life.end < other.begin) continue;
    const SharedArray& array = arrays[static_cast<std::size_t>(other.array)];
    taken.emplace_back(array.offset, array.offset + array.bytes);
  }
  std::sort(taken.begin(), taken.end());
  std::int64_t at = kBlockScratchBytes;
  for (const auto& [begin, end] : taken) {
    if (begin - at >= arrays[static_cast<std::size_t>(life.array)].bytes) break;
    at = std::max(at, end);
  }
  return at;
}

/// Returns a kernel that has only the axes.
tile::Kernel kernel_axes(const tile::Kernel& kernel) {
  tile::Kernel axes;
  axes.axes = kernel.axes;
  return axes;
}

/// Places each array in the first gap that the arrays before it leave. Returns the bytes of all.
std::int64_t place_in_order(const std::vector<ArrayLife>& lives, std::vector<SharedArray>& arrays) {
  std::vector<ArrayLife> placed;
  std::int64_t bytes = kBlockScratchBytes;
  for (const ArrayLife& life : lives) {
    SharedArray& array = arrays[static_cast<std::size_t>(life.array)];
    array.offset = first_gap(placed, arrays, life);
    placed.push_back(life);
    bytes = std::max(bytes, array.offset + array.bytes);
  }
  return bytes;
}

}  // namespace

SharedArray shared_array(const tile::Kernel& kernel, const tile::ValueInfo& of, bool narrow, bool computed) {
  SharedArray array{of.dtype, narrow, of.lanes};
  const std::int64_t last = kernel.axes[static_cast<std::size_t>(of.lanes.back())].extent;
  // The pitch is odd (narrow: an odd number of 16-byte packets). So the elements of a column, or narrow rows
  // of 16 bytes, lie in distinct banks.
  array.pitch = narrow ? (parts_of(last, 8) | 1) * 8 : of.lanes.size() == 2 && last > 1 ? last | 1 : last;
  std::int64_t rows = extent_of(kernel, of.lanes) / last;
  if (computed && narrow) rows = parts_of(rows, 16) * 16;  // put_tile writes 16 at once
  const std::int64_t elements = rows * array.pitch;
  array.bytes = (elements * (narrow ? 2 : arithmetic_bytes(of.dtype)) + 15) / 16 * 16;
  return array;
}

SharedArray window_array(const tile::Kernel& kernel, const tile::ValueInfo& of, std::int64_t window,
                         bool computed) {
  tile::Kernel part = kernel_axes(kernel);
  part.axes[static_cast<std::size_t>(computed ? of.lanes[1] : of.lanes[0])].extent =
      computed ? window : 2 * window;
  SharedArray array = shared_array(part, of, true, computed);
  array.window = window;
  return array;
}

SharedArray row_sums_array(const tile::Kernel& kernel, const tile::ValueInfo& of, std::int64_t row_tiles) {
  SharedArray array{of.dtype, false, of.lanes};
  array.row_tiles = row_tiles;
  array.pitch = parts_of(extent_of(kernel, of.lanes), 16) * 16;  // put_sums writes whole tiles
  array.bytes = row_tiles * array.pitch * arithmetic_bytes(of.dtype);
  return array;
}

std::int64_t place_arrays(std::vector<ArrayLife> lives, std::vector<SharedArray>& arrays) {
  std::ranges::sort(lives, {}, [](const ArrayLife& life) { return std::pair(life.begin, life.array); });
  std::vector<ArrayLife> largest_first = lives;
  std::ranges::stable_sort(largest_first, std::greater<>(), [&](const ArrayLife& life) {
    return arrays[static_cast<std::size_t>(life.array)].bytes;
  });
  std::vector<SharedArray> others = arrays;
  const std::int64_t bytes = place_in_order(lives, arrays);
  const std::int64_t other_bytes = place_in_order(largest_first, others);
  if (other_bytes >= bytes) return bytes;
  arrays = std::move(others);
  return other_bytes;
}

}  // namespace rewire::codegen::cuda
