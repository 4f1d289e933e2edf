// Casts anywhere in a network: what a product, a bias or a sum is asked for in mixed types compiles, and is
// what the evaluator computes.
#include "ir/error.h"
#include "models/trial.h"
#include "programs/programs.h"
#include "runtime/device/sanitized.h"
#include "runtime/verify/engine_check.h"
#include "tests/support/catch.h"
#include "tests/support/random_casts.h"
#include "tests/support/slice.h"

namespace rewire::runtime {
namespace {

TEST_CASE("Networks with casts at random places, compiled, compute what the evaluator does") {
#ifdef REWIRE_SANITIZED
  constexpr std::uint64_t kSeeds = 4;  // LLVM itself takes ten times as long there
#else
  constexpr std::uint64_t kSeeds = 24;
#endif
  for (const models::TrialNetwork& network : models::trial_networks()) {
    const auto [first, count] = testing::slice().part(1, kSeeds);
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
      CAPTURE(network.name, seed);
      ir::Module module = network.module;
      testing::cast_at_random(module, seed);
      programs::add_grad_program(module, {});
      JitEngineOptions options;
      options.optimise = false;
      const auto compiled = make_jit_engine(module, options);
      const auto evaluator = make_evaluator_engine(module);
      for (const EngineCheckRow& row : check_engine(*compiled, *evaluator, module, {}, seed).rows) {
        CAPTURE(row.what, row.worst, row.error, row.tolerance, row.bound);
        CHECK(row.passed());
      }
    }
  }
}

}  // namespace
}  // namespace rewire::runtime
