// Products with block-circulant matrices, and their gradient with respect to the lags. c [p, q, n] holds one
// circulant of n lags for each pair of an output slice i and an input slice j. x [..., q n] and y [..., p n]
// consist of slices of n elements, side by side:
//   y[i, r] = sum over j, s of x[j, s] c[i, j, (r - s) mod n]     convolution
//   y[i, r] = sum over j, s of x[j, s] c[i, j, (s - r) mod n]     correlation
// This is y = x C(c) with a matrix C(c) [q n, p n]. With transpose: y [..., q n] = x [..., p n] C(c)^T.
#include <algorithm>
#include <cmath>
#include <utility>

#include "ir/error.h"
#include "ir/ops/checks.h"
#include "ir/ops/circulant.h"
#include "ir/ops/functions.h"

namespace rewire::ir {
namespace {

void check_lowering(const InferContext& context, std::int64_t lags) {
  const std::string& lowering = context.attributes.get_string("lowering");
  if (std::ranges::find(kCirculantLowerings, lowering) == std::end(kCirculantLowerings)) {
    user_error("lowering must be one of {}, not '{}'", fmt::join(kCirculantLowerings, ", "), lowering);
  }
  const int radix = split_radix(lowering);
  if (lags % radix != 0) user_error("lowering {} needs a multiple of {} lags, not {}", lowering, radix, lags);
}

struct Slices {
  std::int64_t outputs = 1, inputs = 1, lags = 1;  // p, q, n
};

/// Returns the lag that takes input place s to output place r.
std::int64_t lag(std::int64_t r, std::int64_t s, std::int64_t lags, bool correlation) {
  return correlation ? (s - r + lags) % lags : (r - s + lags) % lags;
}

/// Calls visit(output index in a row, input index in a row, index in c) for every term of a row's product.
template <class Visit>
void for_each_term(const Slices& slices, bool correlation, Visit visit) {
  const std::int64_t n = slices.lags;
  for (std::int64_t i = 0; i < slices.outputs; ++i) {
    for (std::int64_t j = 0; j < slices.inputs; ++j) {
      for (std::int64_t r = 0; r < n; ++r) {
        for (std::int64_t s = 0; s < n; ++s) {
          visit(static_cast<std::size_t>(i * n + r), static_cast<std::size_t>(j * n + s),
                static_cast<std::size_t>((i * slices.inputs + j) * n + lag(r, s, n, correlation)));
        }
      }
    }
  }
}

/// Counts the work as papers do, whatever the lowering. Each of `outputs` elements needs one transform and
/// one inverse transform, and its share of the spectra's products with each input slice (Tang et al.,
/// Augmented Shortcuts, tables 3 to 5). That is 2 p n log2 n + 2 p q n per row.
Work by_transforms(double outputs, const Shape& lags, std::size_t inputs_axis) {
  const double multiply_adds =
      outputs * 2 * (std::log2(static_cast<double>(lags[2])) + static_cast<double>(lags[inputs_axis]));
  return {2 * multiply_adds, multiply_adds};
}

}  // namespace

std::vector<TensorType> infer_circulant_matmul(const InferContext& context) {
  const TensorType& x = context.operand(0);
  const TensorType& c = context.operand(1);
  require_float(context, 0);
  if (x.dtype != c.dtype) user_error("operand dtypes differ (cast one)");
  if (x.rank() < 1) user_error("x (operand 0) must have rank 1 or more");
  if (c.rank() != 3) user_error("c (operand 1) must be [output slices, input slices, lags]");
  const bool transpose = context.attributes.get_bool("transpose");
  const std::int64_t in = c.shape[transpose ? 0 : 1], out = c.shape[transpose ? 1 : 0], lags = c.shape[2];
  if (x.shape.back() != in * lags) {
    user_error("x's last axis is {}, not {} slices of {}", x.shape.back(), in, lags);
  }
  check_lowering(context, lags);
  TensorType result = x;
  result.shape.back() = out * lags;
  return {result};
}

void eval_circulant_matmul(EvalContext& context) {
  const Tensor& x = context.in(0);
  const Tensor& c = context.in(1);
  std::vector<double>& y = context.out().data;
  const Slices slices{c.type.shape[0], c.type.shape[1], c.type.shape[2]};
  const bool transpose = context.op.attributes.get_bool("transpose");
  const auto in = static_cast<std::size_t>(x.type.shape.back());
  const auto out = static_cast<std::size_t>(context.out().type.shape.back());
  for_each_term(slices, context.op.attributes.get_bool("correlation"),
                [&](std::size_t r, std::size_t s, std::size_t at) {
                  if (transpose) std::swap(r, s);
                  for (std::size_t row = 0; row * in < x.data.size(); ++row)
                    y[row * out + r] += x.data[row * in + s] * c.data[at];
                });
}

std::vector<TensorType> infer_circulant_matmul_grad(const InferContext& context) {
  const TensorType& x = context.operand(0);
  const TensorType& g = context.operand(1);
  const std::int64_t lags = context.attributes.get_int("lags");
  require_float(context, 0);
  if (x.dtype != g.dtype) user_error("operand dtypes differ (cast one)");
  if (x.rank() < 1 || g.rank() != x.rank() ||
      !std::equal(x.shape.begin(), x.shape.end() - 1, g.shape.begin())) {
    user_error("the leading axes of x (operand 0) and of the result's gradient (operand 1) differ");
  }
  if (lags < 1) user_error("lags must be 1 or more, not {}", lags);
  if (x.shape.back() % lags != 0 || g.shape.back() % lags != 0) {
    user_error("last axes of {} and {} are not multiples of {} lags", x.shape.back(), g.shape.back(), lags);
  }
  check_lowering(context, lags);
  return {{x.dtype, {g.shape.back() / lags, x.shape.back() / lags, lags}}};
}

void eval_circulant_matmul_grad(EvalContext& context) {
  const Tensor& x = context.in(0);
  const Tensor& g = context.in(1);
  std::vector<double>& c = context.out().data;
  const Shape& shape = context.out().type.shape;
  const auto in = static_cast<std::size_t>(x.type.shape.back());
  const auto out = static_cast<std::size_t>(g.type.shape.back());
  for_each_term({shape[0], shape[1], shape[2]}, context.op.attributes.get_bool("correlation"),
                [&](std::size_t r, std::size_t s, std::size_t at) {
                  for (std::size_t row = 0; row * in < x.data.size(); ++row)
                    c[at] += g.data[row * out + r] * x.data[row * in + s];
                });
}

Work work_circulant(const WorkContext& context) {
  return by_transforms(static_cast<double>(context.results[0].elements()), context.operands[1].shape,
                       context.attributes.get_bool("transpose") ? 0 : 1);
}

Work work_circulant_grad(const WorkContext& context) {
  return by_transforms(static_cast<double>(context.operands[1].elements()), context.results[0].shape, 1);
}

}  // namespace rewire::ir
