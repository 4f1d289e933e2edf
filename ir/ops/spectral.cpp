// The discrete Fourier transform of real rows and its inverse, computed directly
// from their sums. The first n / 2 + 1 of the n bins of a real row determine all. A
// spectrum [..., 2, n / 2 + 1] holds their real parts, then their imaginary parts.
// A spectrum of pairs [..., n / 2 + 1, 2] holds both parts of each bin together.
#include <cmath>
#include <numbers>
#include <utility>

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

/// Where a spectrum stores the parts of its bins, as distances in elements.
struct Places {
  std::size_t bin, part;  // from one bin to the next; from a real part to its imaginary part
};
Places apart(std::size_t bins) {
  return {1, bins};
}
constexpr Places kPairs{2, 1};

void transform(const Tensor& x, const Places& at, Tensor& spectra) {
  const auto n = static_cast<std::size_t>(x.type.shape.back());
  const std::size_t bins = n / 2 + 1;
  const Circle circle(x.type.shape.back());
  for (std::size_t row = 0; row * n < x.data.size(); ++row) {
    double* const spectrum = spectra.data.data() + row * 2 * bins;
    for (std::size_t k = 0; k < bins; ++k) {
      for (std::size_t s = 0; s < n; ++s) {
        spectrum[k * at.bin] += x.data[row * n + s] * circle.cosine[k * s % n];
        spectrum[k * at.bin + at.part] -= x.data[row * n + s] * circle.sine[k * s % n];
      }
    }
  }
}

// divisor x[s] = sum over bins k of w_k (re_k cos(2 pi k s / n) - im_k sin(2 pi k s / n)).
// w_k = 2 for a bin that also represents bin n - k. w_k = 1 for bin 0 and, if n is even, for bin n / 2.
// The imaginary parts of these two are ignored.
void invert(const Tensor& spectra, const Places& at, double divisor, Tensor& x) {
  const auto n = static_cast<std::size_t>(x.type.shape.back());
  const std::size_t bins = n / 2 + 1;
  const Circle circle(x.type.shape.back());
  for (std::size_t row = 0; row * n < x.data.size(); ++row) {
    const double* const spectrum = spectra.data.data() + row * 2 * bins;
    for (std::size_t s = 0; s < n; ++s) {
      double total = spectrum[0];
      for (std::size_t k = 1; k < bins; ++k) {
        const bool alone = 2 * k == n;
        const double re = spectrum[k * at.bin], im = spectrum[k * at.bin + at.part];
        const double imaginary = alone ? 0 : im * circle.sine[k * s % n];
        total += (alone ? 1 : 2) * (re * circle.cosine[k * s % n] - imaginary);
      }
      x.data[row * n + s] = total / divisor;
    }
  }
}

std::int64_t checked_length(const InferContext& context, std::int64_t bins) {
  const std::int64_t length = context.attributes.get_int("length");
  if (length < 1 || length / 2 + 1 != bins)
    user_error("length {} has {} bins, not {}", length, length / 2 + 1, bins);
  return length;
}

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
  transform(context.in(0), apart(static_cast<std::size_t>(context.in(0).type.shape.back()) / 2 + 1),
            context.out());
}

std::vector<TensorType> infer_irfft(const InferContext& context) {
  require_float(context, 0);
  TensorType type = context.operand(0);
  if (type.rank() < 2 || type.shape[type.shape.size() - 2] != 2) {
    user_error("the spectrum (operand 0) must be [..., 2, bins]: real parts, then imaginary parts");
  }
  const std::int64_t length = checked_length(context, type.shape.back());
  type.shape.pop_back();
  type.shape.back() = length;
  return {type};
}

void eval_irfft(EvalContext& context) {
  const std::int64_t length = context.op.attributes.get_int("length");
  invert(context.in(0), apart(static_cast<std::size_t>(length) / 2 + 1), static_cast<double>(length),
         context.out());
}

std::vector<TensorType> infer_rfft_pairs(const InferContext& context) {
  TensorType type = infer_rfft(context)[0];
  std::swap(type.shape[type.shape.size() - 2], type.shape.back());
  return {type};
}

void eval_rfft_pairs(EvalContext& context) {
  transform(context.in(0), kPairs, context.out());
}

std::vector<TensorType> infer_irfft_pairs(const InferContext& context) {
  require_float(context, 0);
  TensorType type = context.operand(0);
  if (type.rank() < 2 || type.shape.back() != 2)
    user_error("the spectrum (operand 0) must be [..., bins, 2]: each bin's real and imaginary part");
  type.shape.pop_back();
  type.shape.back() = checked_length(context, type.shape.back());
  return {type};
}

void eval_irfft_pairs(EvalContext& context) {
  invert(context.in(0), kPairs, 1, context.out());
}

// The operations of a radix-2 transform of real rows: 2.5 n log2 n.
Work work_fourier(const WorkContext& context) {
  const TensorType& rows = context.operands[0].elements() < context.results[0].elements()
                               ? context.operands[0]
                               : context.results[0];
  return {2.5 * static_cast<double>(rows.elements()) * std::log2(static_cast<double>(rows.shape.back())), 0};
}

}  // namespace rewire::ir
