// Rows by index, as CUDA text on the host, against the evaluator.
#include "tests/support/indexed_cases.h"

#include "tests/cuda_shim/device_cases.h"
#include "tests/support/catch.h"

namespace rewire::cuda_shim {
namespace {

TEST_CASE("rows by index as CUDA text are as evaluated, in any order of threads") {
  const std::vector<testing::IndexedCase> all = testing::indexed_cases();
  DeviceCases cases;
  for (const testing::IndexedCase& indexed : all) cases.add(indexed.module, indexed.inputs, {}, true);
  cases.compile();
  for (std::size_t k = 0; k < all.size(); ++k) {
    CAPTURE(all[k].name);
    const CaseRun run = cases.run(k);
    std::vector<ir::Tensor> results;
    for (const ir::Argument& result : all[k].module.function("main").results)
      results.push_back(runtime::to_double(run.results.at(result.name)));
    CHECK(testing::indexed_difference(all[k], results) == "");
    CHECK(differing(run, cases.run(k, order_of_seed(k))).empty());
  }
}

}  // namespace
}  // namespace rewire::cuda_shim
