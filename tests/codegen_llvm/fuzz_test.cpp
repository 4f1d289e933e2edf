// Random kernels against the interpreter. REWIRE_FUZZ_SEED=n replays one of them, REWIRE_FUZZ_COUNT=n runs
// that many.
#include <cstdlib>

#include "tests/support/catch.h"
#include "tests/support/random_tile.h"
#include "tests/support/tile_check.h"

namespace rewire::test {
namespace {

std::uint64_t environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST_CASE("random kernels agree with the interpreter") {
  const std::uint64_t only = environment("REWIRE_FUZZ_SEED", 0);
  const std::uint64_t count = environment("REWIRE_FUZZ_COUNT", 300);
  const char* const kCpus[] = {"", "haswell", "x86-64-v2"};
  for (std::uint64_t seed = only > 0 ? only : 1; seed <= (only > 0 ? only : count); ++seed) {
    const auto kernel = random_kernel(seed);
    TileCheck check;
    check.cpu = kCpus[seed % 3];
    check.seed = seed;
    check.tolerance = 1e-5;
    check.floor = 0.01;
    INFO("REWIRE_FUZZ_SEED=" << seed << " on '" << check.cpu << "'\n" << codegen::tile::print(kernel));
    CHECK(check_kernel(kernel, check) == "");
  }
}

}  // namespace
}  // namespace rewire::test
