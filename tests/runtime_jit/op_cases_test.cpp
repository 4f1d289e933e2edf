// Every op of the table, compiled, against the evaluator, within the tolerance of its row.
#include <cmath>

#include "ir/evaluate.h"
#include "ir/ops/op_info.h"
#include "tests/runtime_jit/jit_check.h"
#include "tests/support/catch.h"
#include "tests/support/op_cases.h"

using namespace rewire;
using testing::OpCase;

namespace {

// Largest difference over largest magnitude; NaN and infinities must agree.
double scaled_error(const ir::Tensor& expected, const ir::Tensor& actual) {
  double scale = 1e-30, error = 0;
  for (std::size_t i = 0; i < expected.data.size(); ++i) {
    const double e = expected.data[i], a = actual.data[i];
    if (std::isnan(e) && std::isnan(a)) continue;
    if (std::isinf(e) && e == a) continue;
    scale = std::max(scale, std::abs(e));
    error = std::max(error, std::isfinite(a) ? std::abs(e - a) : INFINITY);
  }
  return error / scale;
}

}  // namespace

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
      for (std::size_t r = 0; r < expected.size(); ++r) {
        INFO(info.name << ", seed " << seed << ", result " << r << " " << to_string(expected[r].type));
        const ir::DType dtype = expected[r].type.dtype;
        // What storing in f32 (or narrower) costs is no error of the kernel.
        const double storage = dtype == ir::DType::f64    ? 1e-12
                               : dtype == ir::DType::bf16 ? 8e-3
                               : dtype == ir::DType::f16  ? 1e-3
                                                          : 1.2e-7;
        CHECK(scaled_error(expected[r], run.results[r]) <=
              info.tolerance + (ir::is_float(dtype) ? storage : 0));
      }
      for (const auto& [name, tensor] : state.tensors) {
        INFO(info.name << ", seed " << seed << ", state " << name);
        CHECK(scaled_error(tensor, run.state.at(name)) <= info.tolerance + 1.2e-7);
      }
    }
  }
}
