// Mixed precision: the contractions of a forward function run in bf16, all else in f32. It runs on the
// network alone, after the plugins and before autodiff. So a plugin sees f32 throughout, and the gradients
// follow from the casts: the gradient of a cast is the cast back.
//
//   matmul(a, b)                   -> matmul(bf16 a, bf16 b) : bf16     f32 accumulation; attention,
//                                     convolutions and block-circulant products likewise
//   matmul(a, b) + broadcast(bias) -> bf16(f32(matmul) + broadcast(bias))     convolutions likewise
//   shape op of a bf16 result      -> the same op in bf16
//   any other op                   -> unchanged, on f32 x for operands x that became bf16: norms, softmax,
//                                     losses, activations, joins, Fourier transforms
//   stream (options.stream = bf16) -> bf16(stream), where a join reads or writes it; likewise each value of
//                                     its type that is read after a later join, as a strategy's lanes
//
// Parameters, arguments and results keep their types: weights, moments and the optimizer are f32. Each f32
// value has one bf16 copy, so a weight is cast once a step. Only values between kernels are bf16: within a
// fused kernel everything is f32, and a cast costs nothing. This is PyTorch's autocast with these
// differences: a bias is added in f32 before the product is rounded, activations and dropout are computed in
// f32 whatever they read, and the casts fuse. A backend without a convolution of bf16 computes it in f32
// (widen_convolutions.h).
#pragma once

#include "ir/module.h"

namespace rewire::ir {

struct MixedPrecision {
  /// The dtype of the residual stream between joins: f32, as with autocast, or bf16. In bf16, a block's
  /// contribution below 2^-9 of the stream is lost.
  DType stream = DType::f32;
};

/// Rewrites `function` of `module`, which is not differentiated yet. bf16, f16 and f64 values are left
/// alone.
void mixed_precision(Module& module, Function& function, const MixedPrecision& options);

/// Returns whether products of the module's f32 matrices may round their operands to TF32 (f32 with 10 bits
/// of mantissa) and add in f32, as a GPU's tensor cores do. The module's attribute "tf32" holds it for every
/// program; it rewrites nothing.
bool allows_tf32(const Module& module);
void allow_tf32(Module& module, bool allowed);

}  // namespace rewire::ir
