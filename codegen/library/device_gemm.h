// Matrix products as a device's library takes them: three matrices, each with a stride of 1, in a batch of
// one stride. A launch with any number of batch axes becomes as few products as its views allow.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/program.h"
#include "ir/types.h"

namespace rewire::codegen {

/// A product c [batch, m, n] = a [batch, m, k] b [batch, k, n] (+ bias [n]) (+ c), or with an epilogue
/// (program.h).
struct DeviceGemmShape {
  /// Strides in elements. The stride of row or column is 1, for c of column. A batch stride of 0 repeats (a
  /// and b).
  struct Matrix {
    std::int64_t batch = 0, row = 0, column = 1;
    std::int64_t alignment = 16;  // bytes, a power of two, for the matrix of every batch
    auto operator<=>(const Matrix&) const = default;
  };
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  Matrix a, b, c;
  ir::DType dtype = ir::DType::f32;   // of a and b: f64, f32, bf16, f16
  ir::DType result = ir::DType::f32;  // of c and the bias: f32 also for 16-bit operands
  bool tf32 = false;                  // f32 operands may be rounded to 10 bits of mantissa; sums stay f32
  bool bias = false;                  // written with GemmEpilogue::gelu_gradient
  bool accumulate = false;
  GemmEpilogue epilogue = GemmEpilogue::none;
  Matrix pre = {};  // [m, n] of c's type; a row stride of 0: none
  bool has_pre() const { return pre.row != 0; }
  auto operator<=>(const DeviceGemmShape&) const = default;
};
/// Returns "gemm 3200x192x768 + bias" or "gemm 12x50x50x64": batch, m, n, k.
std::string short_name(const DeviceGemmShape& shape);
/// Returns all of it in one line that begins with "gemm ": sizes, types, and strides (batch, row, column)
/// and alignment of each matrix. "gemm 12x50x50x64 bf16>f32 a=64,768,1@16 b=64,1,768@16 c=2500,50,1@8".
std::string full_name(const DeviceGemmShape& shape);

/// One product of a launch, and the byte offsets of what it reads and writes in the views' buffers.
struct DeviceGemmCall {
  DeviceGemmShape shape;
  std::int64_t a = 0, b = 0, c = 0, bias = 0, pre = 0;
};
/// Returns the products of a launch, all of one shape. Axes over which b repeats become rows if the layouts
/// of a and c allow it. If c is a window (its rows are contiguous only within an image), the longer of the
/// two axes is the rows. The other axes become as few batch axes as the strides allow. The longest of these
/// is the library's batch; each index of the others is a call. Buffers are aligned to 64 bytes, a bias to
/// 16. `tf32`: products of f32 may be of TF32.
std::vector<DeviceGemmCall> device_gemm_calls(const Program& program, const GemmLaunch& launch, bool tf32);

}  // namespace rewire::codegen
