// Cuts a set of cases that is too large for every test run into slices. REWIRE_SLICE=K/N in the environment
// selects the K-th of N, from 0; without it all cases run (scripts/test.sh full).
#pragma once

#include <cstdint>
#include <string_view>

namespace rewire::testing {

struct Slice {
  std::uint64_t index = 0, count = 1;

  struct Range {
    std::uint64_t first = 0, count = 0;
  };
  /// Returns this slice's part of `cases` cases from `first` on. They are neighbours, because the content of
  /// a case depends on its seed modulo small numbers.
  constexpr Range part(std::uint64_t first, std::uint64_t cases) const {
    const std::uint64_t begin = index * cases / count, end = (index + 1) * cases / count;
    return {first + begin, end - begin};
  }
  /// Returns true if the slice has the member of this number, for a set whose neighbours are alike.
  constexpr bool takes(std::uint64_t member) const { return member % count == index; }
  /// Returns true if the slice has the member of this name, for a set whose members have names.
  constexpr bool takes(std::string_view name) const {
    std::uint64_t hash = 0;
    for (const char letter : name) hash = 31 * hash + static_cast<unsigned char>(letter);
    return takes(hash);
  }
};

/// Returns the slice from the environment; throws std::invalid_argument if that is no slice.
Slice slice();

}  // namespace rewire::testing
