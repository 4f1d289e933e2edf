// The order in which an epoch visits samples.
#pragma once

#include <cstdint>
#include <vector>

namespace rewire::runtime {

/// Returns a random permutation of `count` samples: Fisher-Yates on the Philox numbers of (seed, epoch).
/// Throws UserError above 2^32 samples.
std::vector<std::uint32_t> epoch_order(std::int64_t count, std::uint64_t seed, std::int64_t epoch);

}  // namespace rewire::runtime
