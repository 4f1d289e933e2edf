// Elementary functions as straight-line vector code: polynomials and rational functions on f32 and f64,
// scalars or vectors of any width. NaN gives NaN, overflow gives infinity. scripts/fit_vector_math.py finds
// the coefficients and their errors.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <span>

#include "codegen/llvm/target.h"

namespace rewire::codegen::cpu {

class VectorMath {
 public:
  VectorMath(llvm::IRBuilder<>& builder, const CpuTarget& target) : builder_(builder), target_(target) {}

  llvm::Value* exp(llvm::Value* x);
  llvm::Value* log(llvm::Value* x);
  llvm::Value* sin(llvm::Value* x) { return sine(x, 0); }
  llvm::Value* cos(llvm::Value* x) { return sine(x, 1); }
  llvm::Value* tanh(llvm::Value* x);
  llvm::Value* erf(llvm::Value* x);
  llvm::Value* sigmoid(llvm::Value* x);
  llvm::Value* sqrt(llvm::Value* x);
  llvm::Value* rsqrt(llvm::Value* x);
  /// Returns NaN for a negative base with a fractional exponent.
  llvm::Value* pow(llvm::Value* base, llvm::Value* exponent);

  /// Returns NaN if either is.
  llvm::Value* maximum(llvm::Value* a, llvm::Value* b);
  llvm::Value* minimum(llvm::Value* a, llvm::Value* b);
  llvm::Value* is_finite(llvm::Value* x);
  /// Returns a b + c, rounded once if the CPU can.
  llvm::Value* fma(llvm::Value* a, llvm::Value* b, llvm::Value* c);

 private:
  llvm::Value* constant(llvm::Value* like, double value) const;
  llvm::Value* integer(llvm::Value* like, std::int64_t value) const;
  /// Returns c0 + c1 x + c2 x^2 …
  llvm::Value* polynomial(llvm::Value* x, std::span<const double> coefficients);
  llvm::Value* clamp(llvm::Value* x, double low, double high);
  /// Returns x p(x^2) / q(x^2) with x clamped to +-limit.
  llvm::Value* odd_rational(llvm::Value* x, double limit, std::span<const double> p,
                            std::span<const double> q);
  llvm::Value* scale_by_power_of_two(llvm::Value* x, llvm::Value* rounded, llvm::Value* shifted);
  llvm::Value* sine(llvm::Value* x, int quadrant);
  llvm::Value* call_each(const char* function, llvm::Value* x);

  llvm::IRBuilder<>& builder_;
  const CpuTarget& target_;
};

}  // namespace rewire::codegen::cpu
