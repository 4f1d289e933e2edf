// Packs operands of a matrix product in the order in which its code reads them (codegen/llvm/product.h).
#pragma once

#include <cstdint>

namespace rewire::runtime {

/// Packs `width` adjacent lines into one panel: to[j * width + line] = from[j * k_stride + line] for j in
/// [0, k).
void copy_steps(const float* from, std::int64_t k_stride, std::int64_t k, std::int64_t width, float* to);

/// Packs lines of `k` elements into panels of `width` lines, `apart` elements from each other: element j of
/// a line goes to to[(line / width) * apart + j * width + line % width]. The rest of the last panel is 0.
/// One of the strides is 1.
void pack_panels(const float* from, std::int64_t line_stride, std::int64_t k_stride, std::int64_t lines,
                 std::int64_t k, std::int64_t width, float* to, std::int64_t apart);

}  // namespace rewire::runtime
