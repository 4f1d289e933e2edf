// Every op of the table as CUDA text, run on the host, against the evaluator, within the tolerance of its
// row.
#include <algorithm>

#include "ir/evaluate.h"
#include "ir/ops/op_info.h"
#include "tests/cuda_shim/device_cases.h"
#include "tests/support/accuracy.h"
#include "tests/support/catch.h"
#include "tests/support/op_cases.h"
#include "tests/support/slice.h"

namespace rewire::cuda_shim {
namespace {

constexpr std::uint64_t kSeeds = 8;

struct Expected {
  const ir::OpInfo* info;
  std::uint64_t seed;
  const ir::Function* function;
  std::vector<ir::Tensor> results;
  ir::EvalState state;
};

void check(const Expected& expected, const CaseRun& run) {
  double largest = 0;
  for (const ir::Tensor& tensor : expected.results)
    largest = std::max(largest, testing::largest_magnitude(tensor));
  for (std::size_t r = 0; r < expected.results.size(); ++r) {
    const ir::Tensor& tensor = expected.results[r];
    INFO(expected.info->name << ", seed " << expected.seed << ", result " << r << " "
                             << to_string(tensor.type));
    const ir::Tensor actual = runtime::to_double(run.results.at(expected.function->results[r].name));
    CHECK(testing::scaled_error(tensor, actual, largest) <=
          expected.info->tolerance + testing::storage_error(tensor.type.dtype));
  }
  for (const auto& [name, tensor] : expected.state.tensors) {
    INFO(expected.info->name << ", seed " << expected.seed << ", state " << name);
    CHECK(testing::scaled_error(tensor, runtime::to_double(run.state.at(name)), 0) <=
          expected.info->tolerance + testing::storage_error(tensor.type.dtype));
  }
}

TEST_CASE("every op's CUDA text agrees with the evaluator, in any order of threads") {
  DeviceCases cases;
  std::vector<testing::OpCase> op_cases;
  std::vector<Expected> expected;
  const testing::Slice slice = testing::slice();
  const testing::Slice::Range seeds = slice.part(1, kSeeds);
  for (const ir::OpInfo& info : ir::op_table()) {
    if (!testing::has_op_case(info.code)) continue;
    for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
      INFO(info.name << ", seed " << seed);
      op_cases.push_back(testing::random_op_case(info.code, seed));
      const testing::OpCase& op_case = op_cases.back();
      cases.add(op_case.module, op_case.inputs, op_case.state, seed % 2 == 0);
      expected.push_back({&info, seed, nullptr, {}, op_case.state});
    }
  }
  cases.compile();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const testing::OpCase& op_case = op_cases[i];
    expected[i].function = &op_case.module.function("main");
    expected[i].results =
        ir::evaluate(op_case.module, *expected[i].function, op_case.inputs, expected[i].state);
    const CaseRun in_order = cases.run(i);
    check(expected[i], in_order);
    INFO(expected[i].info->name << ", seed " << expected[i].seed << ", threads in random order");
    CHECK(differing(in_order, cases.run(i, order_of_seed(expected[i].seed))) == std::vector<std::string>{});
  }
  CHECK(cases.report().kernels > 500 / static_cast<int>(slice.count));
}

}  // namespace
}  // namespace rewire::cuda_shim
