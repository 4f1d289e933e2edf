// Small matrices in one kernel, as CUDA text on the host, against the evaluator.
#include "tests/support/small_matrix.h"

#include "ir/evaluate.h"
#include "tests/cuda_shim/device_cases.h"
#include "tests/support/catch.h"

namespace rewire::cuda_shim {
namespace {

TEST_CASE("a small matrix normalised as CUDA text is as evaluated, in any order of threads") {
  const std::vector<testing::SmallMatrix> sizes = testing::small_matrices();
  DeviceCases cases;
  for (const testing::SmallMatrix& size : sizes)
    cases.add(testing::small_matrix(size), testing::small_matrix_inputs(size), {}, true);
  cases.compile();
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    const ir::Module module = testing::small_matrix(sizes[k]);
    ir::EvalState state;
    const std::vector<ir::Tensor> exact =
        ir::evaluate(module, module.function("main"), testing::small_matrix_inputs(sizes[k]), state);
    const CaseRun run = cases.run(k);
    CAPTURE(sizes[k].rows, sizes[k].columns, sizes[k].steps);
    for (std::size_t result = 0; result < exact.size(); ++result) {
      const ir::Tensor got = runtime::to_double(run.results.at(module.function("main").results[result].name));
      for (std::size_t i = 0; i < got.data.size(); ++i) {
        CAPTURE(result, i);
        CHECK(got.data[i] == Approx(exact[result].data[i]).margin(1e-5));
      }
    }
    for (const std::uint64_t seed : {1, 2}) CHECK(differing(run, cases.run(k, order_of_seed(seed))).empty());
  }
}

}  // namespace
}  // namespace rewire::cuda_shim
