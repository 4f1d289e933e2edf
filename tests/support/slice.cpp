#include "tests/support/slice.h"

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace rewire::testing {
namespace {

/// Whether the parts of so many cases are neighbours, from the first case to the last.
constexpr bool parts_are_all(std::uint64_t cases, std::uint64_t count) {
  std::uint64_t next = 1;
  for (std::uint64_t index = 0; index < count; ++index) {
    const Slice::Range part = Slice{index, count}.part(1, cases);
    if (part.first != next) return false;
    next += part.count;
  }
  return next == cases + 1;
}
static_assert(parts_are_all(500, 4) && parts_are_all(50, 4) && parts_are_all(8, 4) && parts_are_all(3, 4) &&
              parts_are_all(120, 1));

}  // namespace

Slice slice() {
  const char* text = std::getenv("REWIRE_SLICE");
  if (text == nullptr) return {};
  unsigned long index = 0, count = 0;
  int length = 0;
  if (std::sscanf(text, "%lu/%lu%n", &index, &count, &length) != 2 || text[length] != '\0' || index >= count)
    throw std::invalid_argument("REWIRE_SLICE is '" + std::string(text) + "'; it takes K/N with K below N");
  return {index, count};
}

}  // namespace rewire::testing
