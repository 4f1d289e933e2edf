// Strategies that are drawn from the boundary's list of ops, valid by construction, and tried at other values
// than their defaults too: plugin test calls none of them wrong.
#include <fmt/format.h>

#include "tests/cli/program.h"
#include "tests/support/catch.h"
#include "tests/support/slice.h"

namespace rewire::test {
namespace {

TEST_CASE("Fifty random strategies are called sound") {
  const testing::Slice::Range seeds = testing::slice().part(1, 50);
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    CAPTURE(seed);
    const Outcome outcome =
        rewire_command({"plugin", "test", fmt::format("{}:seed={}", REWIRE_PLUGIN, seed), "--quiet"});
    CHECK(outcome.code == 0);
    CHECK(outcome.err.empty());
    CHECK_THAT(outcome.out, !REWIRE_CATCH_CONTAINS("FAILED") && !REWIRE_CATCH_CONTAINS("refused"));
  }
}

}  // namespace
}  // namespace rewire::test
