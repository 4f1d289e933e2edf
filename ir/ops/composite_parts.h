// The pieces of the composite ops that their decomposition and their VJP both need. Emitted by one function
// each, they come out as the same ops in both, so that CSE leaves one mean, one rstd, one exponential a row.
//
// Sixteen-bit operands are widened to f32 here: row statistics and exponentials are never held in bf16 or
// f16.
#pragma once

#include <cstdint>

#include "ir/builder.h"

namespace rewire::ir {

/// x as f32 if it is bf16 or f16, else x itself.
Value widen(Builder& builder, Value x);

/// (x - mean) and 1 / sqrt(var + epsilon) over the last axis, biased variance, both with that axis kept.
struct RowMoments {
  Value centered;  // x's shape
  Value rstd;      // extent 1 at the end
};
RowMoments emit_row_moments(Builder& builder, Value x, double epsilon);

/// The same of each index of `axis`, over all other axes, with the mean and the biased variance themselves; all but
/// `centered` have x's rank, and extent 1 at the other axes.
struct ChannelMoments {
  Value centered;  // x's shape
  Value mean, variance, rstd;
};
ChannelMoments emit_channel_moments(Builder& builder, Value x, std::int64_t axis, double epsilon);
/// The axes that are not `axis` of a tensor of that rank.
Ints other_axes(std::int64_t axis, int rank);
/// A vector along `axis` of a tensor of that rank, with extent 1 at the others.
Value along_axis(Builder& builder, Value vector, std::int64_t axis, int rank);

/// Elements that a channel's moments are of, and the factor that makes their variance unbiased: n / (n - 1), 1 for
/// n = 1.
std::int64_t batch_norm_count(const TensorType& x, std::int64_t axis);
double unbiased_factor(std::int64_t count);
/// The moments that batch_norm divides by: the batch's where `training`, else the running ones, operands of the op.
ChannelMoments emit_batch_norm_moments(Builder& builder, const Op& op);

/// With m = max x over the axis: x - m, exp(x - m) and the sum of those exponentials.
struct ShiftedExponentials {
  Value shifted;  // x's shape
  Value exponentials;
  Value sum;  // extent 1 at the axis
};
ShiftedExponentials emit_shifted_exponentials(Builder& builder, Value x, std::int64_t axis);
/// exponentials / sum.
Value emit_normalised(Builder& builder, const ShiftedExponentials& parts);

/// i1 [B, K]: class k is the label of row b. labels is an integer [B].
Value emit_one_hot(Builder& builder, Value labels, std::int64_t classes);

/// The standard normal's distribution function, (1 + erf(x / sqrt(2))) / 2.
Value emit_normal_cdf(Builder& builder, Value x);

/// tanh(sqrt(2/pi) (x + 0.044715 x^3)), of the tanh form of GELU (Hendrycks and Gimpel, 2016).
Value emit_gelu_tanh(Builder& builder, Value x);
inline constexpr double kGeluCubic = 0.044715;

}  // namespace rewire::ir
