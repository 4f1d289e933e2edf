// rewire verify --without: one pass or rewrite of the compiler left out, to find the one that is wrong.
#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

Outcome verify_without(const Words& passes, const Words& more = {}) {
  Words words = Words{"verify"} + kModel + more + Words{"--quiet"};
  for (const std::string& pass : passes) words = words + Words{"--without", pass};
  return rewire_command(words);
}

TEST_CASE("What is compiled without a pass and a rewrite of the lowering is held to the evaluator") {
  const Outcome outcome = verify_without({"recompute", "share_code"});
  CHECK(outcome.err == "");
  CHECK(outcome.code == 0);
  CHECK_THAT(outcome.out, REWIRE_CATCH_CONTAINS("compiled program against the evaluator"));
}

TEST_CASE("A pass that is needed, or that there is not, is refused in one line") {
  const Outcome needed = verify_without({"decompose"});
  CHECK(
      needed.err ==
      "rewire: the pass decompose cannot be left out: nothing else computes composites and residual joins\n");
  CHECK(needed.code == 2);
  const Outcome unknown = verify_without({"recompte"});
  CHECK_THAT(unknown.err,
             REWIRE_CATCH_CONTAINS("rewire: verify: --without recompte: there is no such pass (did you "
                                   "mean 'recompute'?); there are specialise_training, "));
  CHECK(unknown.code == 2);
}

}  // namespace
}  // namespace rewire::test
