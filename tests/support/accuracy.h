// How far a backend's tensor is from the evaluator's, in units that an op's tolerance is given in.
#pragma once

#include "ir/tensor.h"

namespace rewire::testing {

/// The largest magnitude of the finite elements.
double largest_magnitude(const ir::Tensor& tensor);

/// Largest difference over largest magnitude; NaN and infinities must agree. A result that is zero but for
/// rounding (the gradient of a softmax over one key) has no scale of its own: a hundredth of
/// `largest_result`, the largest magnitude of the op's results, stands for it.
double scaled_error(const ir::Tensor& expected, const ir::Tensor& actual, double largest_result);

/// What storing a value in its dtype costs, relative to it.
double storage_error(ir::DType dtype);

}  // namespace rewire::testing
