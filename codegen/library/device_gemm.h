// Matrix products as a device's library takes them: three matrices, each with one stride of 1, in a batch of
// one stride. A launch of any number of batch axes becomes as few of them as its views allow.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/program.h"
#include "ir/types.h"

namespace rewire::codegen {

/// c [batch, m, n] = a [batch, m, k] b [batch, k, n] (+ bias [n]) (+ c), or with an epilogue (program.h).
struct DeviceGemmShape {
  /// Strides in elements; one of row and column is 1, c's column. A batch stride of 0 repeats (a and b).
  struct Matrix {
    std::int64_t batch = 0, row = 0, column = 1;
    std::int64_t alignment = 16;  // bytes, a power of two: of the matrix of every batch
    auto operator<=>(const Matrix&) const = default;
  };
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  Matrix a, b, c;
  ir::DType dtype = ir::DType::f32;   // of a and b: f64, f32, bf16, f16
  ir::DType result = ir::DType::f32;  // of c and the bias: f32 may stand behind 16-bit operands
  bool tf32 = false;  // f32 operands may be rounded to 10 bits of mantissa; sums are f32 all the same
  bool bias = false;  // with GemmEpilogue::gelu_gradient: written
  bool accumulate = false;
  GemmEpilogue epilogue = GemmEpilogue::none;
  Matrix pre = {};  // [m, n] of c's type; a row of 0: there is none
  bool has_pre() const { return pre.row != 0; }
  auto operator<=>(const DeviceGemmShape&) const = default;
};
/// "gemm 3200x192x768 + bias", "gemm 12x50x50x64": batch, m, n, k.
std::string short_name(const DeviceGemmShape& shape);
/// All of it, in one line that begins with "gemm ": sizes, types, and strides (batch, row, column) and
/// alignment of each matrix. "gemm 12x50x50x64 bf16>f32 a=64,768,1@16 b=64,1,768@16 c=2500,50,1@8".
std::string full_name(const DeviceGemmShape& shape);

/// One product of a launch: what it reads and writes, in bytes from the beginning of its view's buffer.
struct DeviceGemmCall {
  DeviceGemmShape shape;
  std::int64_t a = 0, b = 0, c = 0, bias = 0, pre = 0;
};
/// The products of a launch, all of one shape. Axes over which b repeats become rows where a and c lie so
/// that they can; where c is a window (its rows are contiguous within an image alone), the longest of the two
/// is the rows. What remains are as few batch axes as the strides allow, of which the longest is the
/// library's own, and each index of the others is a call. Buffers are aligned to 64 bytes, a bias to 16.
/// `tf32`: products of f32 may be of TF32.
std::vector<DeviceGemmCall> device_gemm_calls(const Program& program, const GemmLaunch& launch, bool tf32);

}  // namespace rewire::codegen
