// Matrix multiplication on the CPU by oneDNN, one thread a call: the runtime cuts a GEMM into fixed parts (by
// shape alone) and runs them on its own pool.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ir/types.h"

namespace rewire::codegen {

/// One part: c [m, n] = a [m, k] b [k, n] (+ bias [n]) (+ c). Strides in elements (row, column); one of the
/// two is 1.
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_column = 0, b_row = 0, b_column = 0, c_row = 0;
  ir::DType dtype = ir::DType::f32;  // of a, b and c; accumulation is f32
  bool bias = false;
  bool accumulate = false;
  auto operator<=>(const GemmShape&) const = default;
};

class Gemm {
 public:
  explicit Gemm(const GemmShape& shape);
  ~Gemm();
  Gemm(Gemm&&) noexcept;
  Gemm& operator=(Gemm&&) noexcept;
  std::int64_t scratch_bytes() const;
  /// Callable from several threads at once with different scratch; runs on the calling thread alone.
  void run(const void* a, const void* b, void* c, const void* bias, void* scratch) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rewire::codegen
