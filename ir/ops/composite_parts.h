// Parts of composite ops that both their decomposition and their VJP need. One function emits each part, so
// both contain the same ops, and CSE leaves one mean, one rstd and one exponential per row.
//
// 16-bit operands are widened to f32 here: row statistics and exponentials are never in bf16 or f16.
#pragma once

#include <cstdint>

#include "ir/builder.h"

namespace rewire::ir {

/// Returns x in f32 if it is bf16 or f16, else x itself.
Value widen(Builder& builder, Value x);

/// x - mean and 1 / sqrt(var + epsilon) over the last axis, which is kept. The variance is biased.
struct RowMoments {
  Value centered;  // x's shape
  Value rstd;      // extent 1 at the end
};
RowMoments emit_row_moments(Builder& builder, Value x, double epsilon);

/// Returns 1 / sqrt(mean(x^2) + epsilon) over the last axis, which is kept with extent 1.
Value emit_reciprocal_rms(Builder& builder, Value x, double epsilon);

/// Moments of each index of `axis` over all other axes, with the biased variance. All but `centered` have
/// x's rank, with extent 1 at the other axes.
struct ChannelMoments {
  Value centered;  // x's shape
  Value mean, variance, rstd;
};
ChannelMoments emit_channel_moments(Builder& builder, Value x, std::int64_t axis, double epsilon);
/// Returns all axes but `axis` of a tensor of that rank.
Ints other_axes(std::int64_t axis, int rank);
/// Reshapes a vector to lie along `axis` of a tensor of that rank, with extent 1 at the others.
Value along_axis(Builder& builder, Value vector, std::int64_t axis, int rank);

/// The number of elements per channel, and the factor that makes their variance unbiased: n / (n - 1), or 1
/// for n = 1.
std::int64_t batch_norm_count(const TensorType& x, std::int64_t axis);
double unbiased_factor(std::int64_t count);
/// Emits the moments that batch_norm divides by: the batch's if `training`, else the running ones (operands
/// of the op).
ChannelMoments emit_batch_norm_moments(Builder& builder, const Op& op);

/// x - m, exp(x - m) and the sum of these exponentials, where m = max x over the axis.
struct ShiftedExponentials {
  Value shifted;  // x's shape
  Value exponentials;
  Value sum;  // extent 1 at the axis
};
ShiftedExponentials emit_shifted_exponentials(Builder& builder, Value x, std::int64_t axis);
/// Returns exponentials / sum.
Value emit_normalised(Builder& builder, const ShiftedExponentials& parts);

/// Returns i1 [B, K]: whether class k is the label of row b. `labels` is an integer [B].
Value emit_one_hot(Builder& builder, Value labels, std::int64_t classes);

/// Returns the standard normal's distribution function, (1 + erf(x / sqrt(2))) / 2.
Value emit_normal_cdf(Builder& builder, Value x);

/// Returns tanh(sqrt(2/pi) (x + 0.044715 x^3)), for the tanh form of GELU (Hendrycks and Gimpel, 2016).
Value emit_gelu_tanh(Builder& builder, Value x);
inline constexpr double kGeluCubic = 0.044715;

}  // namespace rewire::ir
