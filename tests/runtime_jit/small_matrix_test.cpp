// Small matrices in one kernel, compiled for the CPU, against the evaluator.
#include "tests/support/small_matrix.h"

#include "ir/evaluate.h"
#include "tests/runtime_jit/jit_check.h"
#include "tests/support/catch.h"

using namespace rewire;

TEST_CASE("a small matrix normalised along rows and columns is as evaluated, and so is its gradient") {
  for (const testing::SmallMatrix& size : testing::small_matrices()) {
    const ir::Module module = testing::small_matrix(size);
    const std::vector<ir::Tensor> inputs = testing::small_matrix_inputs(size);
    ir::EvalState state;
    const std::vector<ir::Tensor> exact = ir::evaluate(module, module.function("main"), inputs, state);
    for (const bool fuse : {true, false}) {
      const testing::JitRun run = testing::run_jit(module, inputs, {}, fuse);
      for (std::size_t result = 0; result < exact.size(); ++result) {
        for (std::size_t i = 0; i < exact[result].data.size(); ++i) {
          CAPTURE(size.rows, size.columns, size.steps, fuse, result, i);
          CHECK(run.results[result].data[i] == Approx(exact[result].data[i]).margin(1e-5));
        }
      }
    }
  }
}
