// The error of a backend's tensor against the evaluator's, in the units of an op's tolerance.
#pragma once

#include "ir/tensor.h"

namespace rewire::testing {

/// Returns the largest magnitude of the finite elements.
double largest_magnitude(const ir::Tensor& tensor);

/// Returns the largest difference over the largest magnitude; NaN and infinities must agree. A result that
/// is zero except for rounding (the gradient of a softmax over one key) has no scale of its own: it uses a
/// hundredth of `largest_result`, the largest magnitude of the op's results.
double scaled_error(const ir::Tensor& expected, const ir::Tensor& actual, double largest_result);

/// Returns the relative error of storing a value in its dtype.
double storage_error(ir::DType dtype);

}  // namespace rewire::testing
