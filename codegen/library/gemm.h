// Matrix multiplication on the CPU by oneDNN, one thread per call: the runtime cuts a GEMM into fixed parts
// (by shape alone) and runs them on its own pool.
//
// bf16 operands go to oneDNN as they are if the CPU multiplies them faster than f32 (AMX; AVX512_BF16 of
// AMD). Otherwise they are first copied to f32, which rounds nothing: Intel's AVX512_BF16 alone has half the
// rate of f32, and without it oneDNN has no fast bf16 at all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ir/types.h"

namespace rewire::codegen {

/// One part: c [m, n] = a [m, k] b [k, n] (+ bias [n]) (+ c). Strides (row, column) are in elements; one of
/// the two is 1.
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_column = 0, b_row = 0, b_column = 0, c_row = 0;
  ir::DType dtype = ir::DType::f32;    // of a and b: f32 or bf16; accumulation is f32
  ir::DType c_dtype = ir::DType::f32;  // f32, or bf16 if a and b are
  bool bias = false;
  ir::DType bias_dtype = ir::DType::f32;  // f32, or bf16 if a and b are
  bool accumulate = false;
  auto operator<=>(const GemmShape&) const = default;
};

/// Returns whether the CPU multiplies bf16 faster than f32.
bool has_fast_bf16();

class Gemm {
 public:
  explicit Gemm(const GemmShape& shape) : Gemm(shape, has_fast_bf16()) {}
  /// `native_bf16`: bf16 operands go to oneDNN as they are, whatever the CPU.
  Gemm(const GemmShape& shape, bool native_bf16);
  ~Gemm();
  Gemm(Gemm&&) noexcept;
  Gemm& operator=(Gemm&&) noexcept;
  std::int64_t scratch_bytes() const;
  /// Computes the part on the calling thread. Callable from several threads at once with different scratch.
  void run(const void* a, const void* b, void* c, const void* bias, void* scratch) const;

 private:
  struct Copy;
  struct Line;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rewire::codegen
