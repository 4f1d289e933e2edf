#include "bench/copy_rate.h"

#include <algorithm>
#include <cstring>

#include "bench/timing.h"

namespace rewire::bench {
namespace {

constexpr std::int64_t kPieces = 64;
constexpr std::size_t kSmallest = std::size_t{1} << 19, kLargest = std::size_t{1} << 30;

}  // namespace

std::vector<CopyRate> measure_copies(runtime::ThreadPool& pool) {
  std::vector<CopyRate> rates;
  for (std::size_t bytes = kSmallest; bytes <= kLargest; bytes *= 2) {
    const Memory from(bytes), to(bytes);
    const std::size_t piece = bytes / kPieces;
    const double seconds = best_seconds([&] {
      pool.run(kPieces, 1, [&](std::int64_t begin, std::int64_t end, int) {
        const std::size_t offset = static_cast<std::size_t>(begin) * piece;
        std::memcpy(to.data() + offset, from.data() + offset, static_cast<std::size_t>(end - begin) * piece);
      });
    });
    const double touched = 2.0 * static_cast<double>(bytes);
    rates.push_back({touched, touched / seconds});
  }
  return rates;
}

double copy_rate_of(const std::vector<CopyRate>& rates, double bytes) {
  double best = rates.back().bytes_per_second;
  for (const CopyRate& rate : rates) {
    if (rate.bytes >= bytes) best = std::max(best, rate.bytes_per_second);
  }
  return best;
}

}  // namespace rewire::bench
