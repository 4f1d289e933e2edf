// Rows by index, compiled for the CPU, against the evaluator.
#include "tests/support/indexed_cases.h"

#include <algorithm>

#include "codegen/compile.h"
#include "codegen/tile/row_condition.h"
#include "tests/runtime_jit/jit_check.h"
#include "tests/support/catch.h"

using namespace rewire;

TEST_CASE("rows by index are compiled as evaluated, with the same bits for any number of threads") {
  for (const testing::IndexedCase& indexed : testing::indexed_cases()) {
    CAPTURE(indexed.name);
    const testing::JitRun one = testing::run_jit(indexed.module, indexed.inputs, {}, true, 1);
    CHECK(testing::indexed_difference(indexed, one.results) == "");
    const testing::JitRun two = testing::run_jit(indexed.module, indexed.inputs, {}, true, 2);
    for (std::size_t r = 0; r < one.results.size(); ++r)
      CHECK(std::ranges::equal(runtime::to_host(one.results[r]).bytes(),
                               runtime::to_host(two.results[r]).bytes()));
    const testing::JitRun unfused = testing::run_jit(indexed.module, indexed.inputs, {}, false, 1);
    CHECK(testing::indexed_difference(indexed, unfused.results) == "");
  }
}

TEST_CASE("what walks many rows by index skips those that add nothing") {
  int cases = 0;
  for (const testing::IndexedCase& indexed : testing::indexed_cases()) {
    if (!indexed.name.starts_with("skipped rows")) continue;
    CAPTURE(indexed.name);
    ++cases;
    ir::PassContext context;
    const codegen::Program program =
        codegen::compile(indexed.module, indexed.module.function("main"), {}, context).program;
    const auto skipping = std::ranges::count_if(program.launches, [](const codegen::Launch& launch) {
      const auto* kernel = std::get_if<codegen::KernelLaunch>(&launch);
      return kernel != nullptr && !codegen::tile::row_conditions(kernel->kernel).empty();
    });
    CHECK(skipping > 0);
  }
  CHECK(cases == 3);
}
