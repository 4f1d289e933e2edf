// Draws numbers below a bound, for the order of an epoch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/philox.h"

namespace rewire::runtime {

/// Draws uniformly from [0, count): the high word of 64 random bits times count. The bias is count / 2^64.
/// Draw i takes the stream's numbers 2i and 2i + 1.
inline std::size_t draw_below(const ir::PhiloxStream& stream, std::size_t draw, std::size_t count) {
  const std::uint64_t high = stream.bits(2 * draw), low = stream.bits(2 * draw + 1);
  return static_cast<std::size_t>(static_cast<unsigned __int128>(high << 32 | low) * count >> 64);
}

}  // namespace rewire::runtime
