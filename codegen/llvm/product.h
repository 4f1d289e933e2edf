// The innermost part of a matrix product on the CPU, as our own code. A block of c stays in registers while
// k runs; each step of k loads one row of b's vectors and multiplies it by one element of a per row (Goto
// and van de Geijn, ACM TOMS 2008). One code serves all extents: the runtime cuts a product into blocks and
// packs their operands (runtime/exec/cpu/product_launch.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/llvm/target.h"

namespace llvm {
class Module;
}

namespace rewire::codegen {

/// The elements of c held in registers: rows x columns. The columns are two vectors. The rows fill the
/// registers that a row of b and an element of a leave: 6 x 16 for AVX2, 14 x 32 for AVX-512, 6 x 8 for SSE
/// and NEON.
struct ProductBlock {
  std::int64_t rows = 0, columns = 0;
  bool operator==(const ProductBlock&) const = default;
};

/// Computes c [rows, columns] = a [rows, k] b [k, columns] (+ c if `add`) (+ bias [columns] if it is not
/// null), f32. Element (i, k) of a is a[i * a_row + k] (direct) or a[k * ProductBlock::rows + i] (packed;
/// a_row is not read). Row k of b begins at b[k * ProductBlock::columns], 64-byte aligned, a whole row
/// however many columns c has. `columns` is 1 to ProductBlock::columns, k 1 or more.
using ProductFunction = void (*)(const float* a, std::int64_t a_row, const float* b, float* c,
                                 std::int64_t c_row, std::int64_t k, std::int64_t columns, const float* bias,
                                 bool add);

/// Does `steps` times the multiply-adds of a whole block, only in registers: no thread can be faster. The
/// sums start from 1, 2 …, and each becomes sum f + g. numbers [2 x a vector] holds f and g; its first
/// vector then holds the total of the sums.
using PeakFunction = void (*)(std::int64_t steps, float* numbers);

struct ProductCode {
  ProductBlock block;
  std::vector<ProductFunction> packed, direct;  // for 1, 2 … block.rows rows
  PeakFunction peak = nullptr;

  /// Returns the operations of a step of `peak`.
  double peak_flops() const { return 2.0 * static_cast<double>(block.rows * block.columns); }
};

namespace cpu {

ProductBlock product_block(const CpuTarget& target);
/// Returns the symbol of a function of ProductCode.
std::string product_symbol(bool packed, std::int64_t rows);
inline constexpr const char* kPeakSymbol = "multiply_add_peak";
/// Adds all functions of ProductCode to a module.
void emit_product(llvm::Module& module, const CpuTarget& target);

}  // namespace cpu
}  // namespace rewire::codegen
