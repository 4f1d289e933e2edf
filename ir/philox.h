// Philox-4x32-10 (Salmon et al., SC 2011). It is counter-based: every number is a function of (seed, step,
// stream name, element index) alone. So all backends draw the same numbers, a run restarts anywhere, and new
// ops never change another stream.
//
// key = (seed low, seed high); counter = (block low, stream hash low, stream hash high, step). Element i
// takes lane i % 4 of block i / 4. Bits 32 and up of the block index are added to the step word times
// 2654435761 (no tensor here comes near).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace rewire::ir {

using PhiloxBlock = std::array<std::uint32_t, 4>;

PhiloxBlock philox4x32_10(PhiloxBlock counter, std::array<std::uint32_t, 2> key);

/// Returns FNV-1a, 64 bits, of the stream's name.
std::uint64_t stream_hash(std::string_view stream);

struct PhiloxStream {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint64_t stream = 0;  // stream_hash(name)

  std::uint32_t bits(std::uint64_t index) const;
  /// Returns a number in [0, 1): the top 24 bits times 2^-24, exact in f32.
  double uniform(std::uint64_t index) const;
  /// Returns a standard normal number by Box-Muller on the pair of lanes that holds `index`: even lane r
  /// cos(t), odd lane r sin(t), with r = sqrt(-2 ln(1 - u0)), t = 2 pi u1.
  double normal(std::uint64_t index) const;
};

}  // namespace rewire::ir
