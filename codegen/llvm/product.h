// The innermost part of a matrix product on the CPU, as code of our own: a block of c stays in registers while k runs, each
// step of which loads one row of b's vectors and multiplies it by one element of a per row (Goto and van de Geijn, ACM TOMS
// 2008). One code serves all extents: what cuts a product into blocks, and packs operands for them, is the runtime's
// (runtime/exec/cpu/product_launch.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/llvm/target.h"

namespace llvm {
class Module;
}

namespace rewire::codegen {

/// Elements of c that stand in registers: rows x columns. The columns are two vectors; the rows fill what registers are left
/// beside a row of b and an element of a: 6 x 16 of AVX2, 14 x 32 of AVX-512, 6 x 8 of SSE and NEON.
struct ProductBlock {
  std::int64_t rows = 0, columns = 0;
  bool operator==(const ProductBlock&) const = default;
};

/// c [rows, columns] = a [rows, k] b [k, columns] (+ c where `add`) (+ bias [columns] where it is none), f32. Element (i, k) of
/// a stands at a[i * a_row + k] (direct) or a[k * ProductBlock::rows + i] (packed; a_row is not read); row k of b at
/// b[k * ProductBlock::columns], 64-byte aligned, a whole row however many columns c has. `columns` is 1 to
/// ProductBlock::columns, k 1 or more.
using ProductFunction = void (*)(const float* a, std::int64_t a_row, const float* b, float* c,
                                 std::int64_t c_row, std::int64_t k, std::int64_t columns, const float* bias,
                                 bool add);

/// `steps` times the multiply-adds of a whole block, in registers alone: what a thread cannot be faster than. Each sum, from
/// 1, 2 … on, becomes sum f + g; numbers [2 x a vector] are f and g, and their first vector then the total of the sums.
using PeakFunction = void (*)(std::int64_t steps, float* numbers);

struct ProductCode {
  ProductBlock block;
  std::vector<ProductFunction> packed, direct;  // of 1, 2 … block.rows rows
  PeakFunction peak = nullptr;

  /// Operations of a step of `peak`.
  double peak_flops() const { return 2.0 * static_cast<double>(block.rows * block.columns); }
};

namespace cpu {

ProductBlock product_block(const CpuTarget& target);
/// The symbols of the functions of ProductCode.
std::string product_symbol(bool packed, std::int64_t rows);
inline constexpr const char* kPeakSymbol = "multiply_add_peak";
/// Adds all of them to a module.
void emit_product(llvm::Module& module, const CpuTarget& target);

}  // namespace cpu
}  // namespace rewire::codegen
