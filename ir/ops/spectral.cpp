// The discrete Fourier transform of real rows and its inverse, straight from their sums. Of the n bins of a
// real row the first n / 2 + 1 tell all; a spectrum [..., 2, n / 2 + 1] holds their real parts, then their
// imaginary parts.
#include <cmath>
#include <numbers>

#include "ir/error.h"
#include "ir/ops/checks.h"
#include "ir/ops/functions.h"

namespace rewire::ir {
namespace {

/// cos and sin of 2 pi i / n for i in [0, n).
struct Circle {
  std::vector<double> cosine, sine;

  explicit Circle(std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n);
      cosine.push_back(std::cos(angle));
      sine.push_back(std::sin(angle));
    }
  }
};

}  // namespace

std::vector<TensorType> infer_rfft(const InferContext& context) {
  require_float(context, 0);
  TensorType type = context.operand(0);
  if (type.rank() < 1) user_error("x (operand 0) must have rank 1 or more");
  const std::int64_t bins = type.shape.back() / 2 + 1;
  type.shape.back() = 2;
  type.shape.push_back(bins);
  return {type};
}

void eval_rfft(EvalContext& context) {
  const Tensor& x = context.in(0);
  std::vector<double>& y = context.out().data;
  const auto n = static_cast<std::size_t>(x.type.shape.back());
  const std::size_t bins = n / 2 + 1;
  const Circle circle(x.type.shape.back());
  for (std::size_t row = 0; row * n < x.data.size(); ++row) {
    for (std::size_t k = 0; k < bins; ++k) {
      for (std::size_t s = 0; s < n; ++s) {
        y[row * 2 * bins + k] += x.data[row * n + s] * circle.cosine[k * s % n];
        y[row * 2 * bins + bins + k] -= x.data[row * n + s] * circle.sine[k * s % n];
      }
    }
  }
}

std::vector<TensorType> infer_irfft(const InferContext& context) {
  require_float(context, 0);
  TensorType type = context.operand(0);
  const std::int64_t length = context.attributes.get_int("length");
  if (type.rank() < 2 || type.shape[type.shape.size() - 2] != 2) {
    user_error("the spectrum (operand 0) must be [..., 2, bins]: real parts, then imaginary parts");
  }
  if (length < 1 || length / 2 + 1 != type.shape.back()) {
    user_error("length {} has {} bins, not {}", length, length / 2 + 1, type.shape.back());
  }
  type.shape.pop_back();
  type.shape.back() = length;
  return {type};
}

// x[s] = (1 / n) sum over bins k of w_k (re_k cos(2 pi k s / n) - im_k sin(2 pi k s / n)), where w_k = 2
// stands for the bin n - k as well; bin 0 and, of an even n, bin n / 2 stand for themselves, and their
// imaginary parts for nothing.
void eval_irfft(EvalContext& context) {
  const Tensor& x = context.in(0);
  std::vector<double>& y = context.out().data;
  const auto n = static_cast<std::size_t>(context.op.attributes.get_int("length"));
  const std::size_t bins = n / 2 + 1;
  const Circle circle(static_cast<std::int64_t>(n));
  for (std::size_t row = 0; row * n < y.size(); ++row) {
    const double* re = x.data.data() + row * 2 * bins;
    for (std::size_t s = 0; s < n; ++s) {
      double total = re[0];
      for (std::size_t k = 1; k < bins; ++k) {
        const bool alone = 2 * k == n;
        const double imaginary = alone ? 0 : re[bins + k] * circle.sine[k * s % n];
        total += (alone ? 1 : 2) * (re[k] * circle.cosine[k * s % n] - imaginary);
      }
      y[row * n + s] = total / static_cast<double>(n);
    }
  }
}

}  // namespace rewire::ir
