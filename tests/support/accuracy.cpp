#include "tests/support/accuracy.h"

#include <algorithm>
#include <cmath>

namespace rewire::testing {

double largest_magnitude(const ir::Tensor& tensor) {
  double largest = 0;
  for (double value : tensor.data) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

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

double storage_error(ir::DType dtype) {
  if (!ir::is_float(dtype)) return 0;
  return dtype == ir::DType::f64    ? 1e-12
         : dtype == ir::DType::bf16 ? 8e-3
         : dtype == ir::DType::f16  ? 1e-3
                                    : 1.2e-7;
}

}  // namespace rewire::testing
