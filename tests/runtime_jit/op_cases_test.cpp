// Every op of the table, compiled, against the evaluator, within the tolerance of its row.
#include <algorithm>

#include "ir/evaluate.h"
#include "ir/ops/op_info.h"
#include "tests/runtime_jit/jit_check.h"
#include "tests/support/accuracy.h"
#include "tests/support/catch.h"
#include "tests/support/op_cases.h"

using namespace rewire;
using testing::OpCase;

TEST_CASE("every compiled op agrees with the evaluator within its row's tolerance") {
  for (const ir::OpInfo& info : ir::op_table()) {
    if (!testing::has_op_case(info.code)) continue;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      const OpCase op_case = testing::random_op_case(info.code, seed);
      ir::EvalState state = op_case.state;
      const auto expected =
          ir::evaluate(op_case.module, op_case.module.function("main"), op_case.inputs, state);
      const auto run = testing::run_jit(op_case.module, op_case.inputs, op_case.state, seed % 2 == 0,
                                        1 + static_cast<int>(seed % 2));
      double largest = 0;
      for (const ir::Tensor& tensor : expected)
        largest = std::max(largest, testing::largest_magnitude(tensor));
      for (std::size_t r = 0; r < expected.size(); ++r) {
        INFO(info.name << ", seed " << seed << ", result " << r << " " << to_string(expected[r].type));
        // What storing in f32 (or narrower) costs is no error of the kernel.
        CHECK(testing::scaled_error(expected[r], run.results[r], largest) <=
              info.tolerance + testing::storage_error(expected[r].type.dtype));
      }
      for (const auto& [name, tensor] : state.tensors) {
        INFO(info.name << ", seed " << seed << ", state " << name);
        CHECK(testing::scaled_error(tensor, run.state.at(name), 0) <= info.tolerance + 1.2e-7);
      }
    }
  }
}
