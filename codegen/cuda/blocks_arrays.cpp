// Arrays in shared memory; see blocks_arrays.h.
#include "codegen/cuda/blocks_arrays.h"

#include <algorithm>
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

}  // namespace

SharedArray shared_array(const tile::Kernel& kernel, const tile::ValueInfo& of, bool narrow) {
  SharedArray array{of.dtype, narrow, of.lanes, 1, 0, 0};
  const std::int64_t last = kernel.axes[static_cast<std::size_t>(of.lanes.back())].extent;
  // The pitch is odd (narrow: an odd number of 16-byte packets). So the elements of a column, or narrow rows
  // of 16 bytes, lie in distinct banks.
  array.pitch = narrow ? (parts_of(last, 8) | 1) * 8 : of.lanes.size() == 2 && last > 1 ? last | 1 : last;
  const std::int64_t elements = extent_of(kernel, of.lanes) / last * array.pitch;
  array.bytes = (elements * (narrow ? 2 : arithmetic_bytes(of.dtype)) + 15) / 16 * 16;
  return array;
}

std::int64_t place_arrays(std::vector<ArrayLife> lives, std::vector<SharedArray>& arrays) {
  std::sort(lives.begin(), lives.end(), [](const ArrayLife& a, const ArrayLife& b) {
    return std::pair(a.begin, a.array) < std::pair(b.begin, b.array);
  });
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

}  // namespace rewire::codegen::cuda
