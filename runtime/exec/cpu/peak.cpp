#include "runtime/exec/cpu/peak.h"

#include <algorithm>
#include <array>
#include <chrono>

namespace rewire::runtime {
namespace {

constexpr int kRuns = 20;
constexpr std::int64_t kPieces = 16;  // of a thread: many, so that none waits long for another
constexpr double kPieceFlops = 5e7;   // about half a millisecond
constexpr std::size_t kVector = 16;   // most floats in a vector

}  // namespace

double multiply_add_peak(const codegen::ProductCode& code, ThreadPool& pool) {
  const auto steps = static_cast<std::int64_t>(kPieceFlops / code.peak_flops());
  const std::int64_t pieces = kPieces * pool.threads();
  double fastest = 0;
  for (int run = 0; run < kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    pool.run(pieces, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t piece = begin; piece < end; ++piece) {
        std::array<float, 2 * kVector> numbers;
        numbers.fill(0.7F);
        code.peak(steps, numbers.data());
      }
    });
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    fastest = std::max(fastest, static_cast<double>(steps * pieces) * code.peak_flops() / taken.count());
  }
  return fastest;
}

}  // namespace rewire::runtime
