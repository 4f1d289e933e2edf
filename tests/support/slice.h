// A set of cases that is too large for every run of the tests is cut into slices: REWIRE_SLICE=K/N in the
// environment takes the K-th of N, from 0; without it all are taken (scripts/test.sh full).
#pragma once

#include <cstdint>

namespace rewire::testing {

struct Slice {
  std::uint64_t index = 0, count = 1;

  struct Range {
    std::uint64_t first = 0, count = 0;
  };
  /// This slice's part of `count` cases from `first` on: neighbours, since what a case tries goes by its seed
  /// modulo small numbers.
  constexpr Range part(std::uint64_t first, std::uint64_t cases) const {
    const std::uint64_t begin = index * cases / count, end = (index + 1) * cases / count;
    return {first + begin, end - begin};
  }
  /// Whether it takes the member of this number, of a set whose neighbours are alike.
  constexpr bool takes(std::uint64_t member) const { return member % count == index; }
};

/// From the environment; throws std::invalid_argument where that is no slice.
Slice slice();

}  // namespace rewire::testing
