// Chooses padding by counting the bank conflicts of some warps; see padded_tile.h.
#include "codegen/cuda/padded_tile.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace rewire::codegen::cuda {
namespace {

constexpr int kMostPadding = 8;
constexpr std::int64_t kBanks = 32, kWordBytes = 4;
constexpr std::int64_t kThreadsLookedAt = 128, kThreadsAtOnce = 32;

/// Counts the shared memory transactions that an access of a warp takes: more than one is a bank conflict.
class Banks {
 public:
  void touch(std::int64_t byte) {
    std::vector<std::int64_t>& words = words_[static_cast<std::size_t>(byte / kWordBytes % kBanks)];
    if (std::ranges::find(words, byte / kWordBytes) == words.end()) words.push_back(byte / kWordBytes);
  }
  std::int64_t times() {
    std::size_t most = 0;
    for (std::vector<std::int64_t>& words : words_) {
      most = std::max(most, words.size());
      words.clear();
    }
    return static_cast<std::int64_t>(most);
  }

 private:
  std::array<std::vector<std::int64_t>, kBanks> words_;
};

class PaddingSearch {
 public:
  PaddingSearch(const std::vector<int>& sizes, std::int64_t bytes) : sizes_(sizes), bytes_(bytes) {}

  std::int64_t conflicts(const TileWalk& walk, const std::vector<std::int64_t>& strides) const {
    Banks banks;
    std::int64_t points = 1;
    for (const std::int32_t axis : walk.order) points *= size(axis);
    const std::int64_t packets = std::min(points / walk.packet, kThreadsLookedAt);
    std::int64_t times = 0;
    for (std::int64_t warp = 0; warp < packets; warp += kThreadsAtOnce) {
      for (std::int64_t e = 0; e < walk.packet; ++e) {
        for (std::int64_t thread = warp; thread < std::min(warp + kThreadsAtOnce, packets); ++thread)
          banks.touch(element(walk, strides, thread * walk.packet + e) * bytes_);
        times += banks.times();
      }
    }
    return times;
  }

  /// Returns the layout with `padding` elements after those of the first `level` axes.
  PaddedTile padded(const TileWalk& points, std::size_t level, int padding) const {
    PaddedTile tile{std::vector<std::int64_t>(sizes_.size(), 0), 1};
    for (std::size_t i = 0; i < points.order.size(); ++i) {
      tile.elements += i == level ? padding : 0;
      tile.strides[static_cast<std::size_t>(points.order[i])] = tile.elements;
      tile.elements *= size(points.order[i]);
    }
    return tile;
  }

 private:
  std::int64_t size(std::int32_t axis) const { return sizes_[static_cast<std::size_t>(axis)]; }

  std::int64_t element(const TileWalk& walk, const std::vector<std::int64_t>& strides,
                       std::int64_t linear) const {
    std::int64_t element = 0;
    for (const std::int32_t axis : walk.order) {
      element += strides[static_cast<std::size_t>(axis)] * (linear % size(axis));
      linear /= size(axis);
    }
    return element;
  }

  const std::vector<int>& sizes_;
  std::int64_t bytes_;
};

}  // namespace

PaddedTile padded_tile(const std::vector<int>& sizes, const TileWalk& points, const TileWalk& memory,
                       std::int64_t bytes) {
  const PaddingSearch search(sizes, bytes);
  PaddedTile best;
  std::pair<std::int64_t, std::int64_t> least(std::numeric_limits<std::int64_t>::max(), 0);
  for (std::size_t level = 1; level < std::max<std::size_t>(points.order.size(), 2); ++level) {
    for (int padding = 0; padding <= kMostPadding; ++padding) {
      PaddedTile tile = search.padded(points, level, padding);
      const std::int64_t times =
          search.conflicts(points, tile.strides) + search.conflicts(memory, tile.strides);
      if (std::pair(times, tile.elements) >= least) continue;
      least = {times, tile.elements};
      best = std::move(tile);
    }
  }
  return best;
}

}  // namespace rewire::codegen::cuda
