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

double largest_magnitude(const ir::Tensor& tensor) {
  double largest = 0;
  for (double value : tensor.data) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

// Largest difference over largest magnitude; NaN and infinities must agree. A result that is zero but for
// rounding (the gradient of a softmax over one key) has no scale of its own: a hundredth of the op's other
// results stands for it.
double scaled_error(const ir::Tensor& expected, const ir::Tensor& actual, double largest_result) {
  double error = 0;
  for (std::size_t i = 0; i < expected.data.size(); ++i) {
    const double e = expected.data[i], a = actual.data[i];
    if (std::isnan(e) && std::isnan(a)) continue;
    if (std::isinf(e) && e == a) continue;
    error = std::max(error, std::isfinite(a) ? std::abs(e - a) : INFINITY);
  }
  return error == 0 ? 0 : error / std::max(largest_magnitude(expected), 0.01 * largest_result);
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
      double largest = 0;
      for (const ir::Tensor& tensor : expected) largest = std::max(largest, largest_magnitude(tensor));
      for (std::size_t r = 0; r < expected.size(); ++r) {
        INFO(info.name << ", seed " << seed << ", result " << r << " " << to_string(expected[r].type));
        const ir::DType dtype = expected[r].type.dtype;
        // What storing in f32 (or narrower) costs is no error of the kernel.
        const double storage = dtype == ir::DType::f64    ? 1e-12
                               : dtype == ir::DType::bf16 ? 8e-3
                               : dtype == ir::DType::f16  ? 1e-3
                                                          : 1.2e-7;
        CHECK(scaled_error(expected[r], run.results[r], largest) <=
              info.tolerance + (ir::is_float(dtype) ? storage : 0));
      }
      for (const auto& [name, tensor] : state.tensors) {
        INFO(info.name << ", seed " << seed << ", state " << name);
        CHECK(scaled_error(tensor, run.state.at(name), 0) <= info.tolerance + 1.2e-7);
      }
    }
  }
}
