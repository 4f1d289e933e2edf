#include "bench/copy_rate.h"

#include <algorithm>
#include <cstring>

#include "bench/timing.h"

namespace rewire::bench {
namespace {

constexpr std::int64_t kPieces = 64;
constexpr std::size_t kSmallest = std::size_t{1} << 19, kLargest = std::size_t{1} << 30;

}  // namespace

std::vector<CopyTime> measure_copies(runtime::ThreadPool& pool) {
  std::vector<CopyTime> copies;
  for (std::size_t bytes = kSmallest; bytes <= kLargest; bytes *= 2) {
    const Memory from(bytes), to(bytes);
    const std::size_t piece = bytes / kPieces;
    const Seconds seconds = measure_seconds([&] {
      pool.run(kPieces, 1, [&](std::int64_t begin, std::int64_t end, int) {
        const std::size_t offset = static_cast<std::size_t>(begin) * piece;
        std::memcpy(to.data() + offset, from.data() + offset, static_cast<std::size_t>(end - begin) * piece);
      });
    });
    const double touched = 2.0 * static_cast<double>(bytes);
    copies.push_back({touched, (1 / touched) * seconds});
  }
  return copies;
}

Seconds copy_seconds(const std::vector<CopyTime>& copies, double bytes) {
  Seconds each = copies.back().seconds;
  for (const CopyTime& copy : copies) {
    if (copy.bytes >= bytes) each = least(each, copy.seconds);
  }
  return bytes * each;
}

}  // namespace rewire::bench
