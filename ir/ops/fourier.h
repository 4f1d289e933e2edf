// Ways to compute a Fourier transform of real rows. The op's layout separates real and imaginary parts,
// [2, bins]; a device's library interleaves them, [bins, 2].
#pragma once

#include <compare>
#include <cstdint>

#include "ir/types.h"

namespace rewire::ir {

/// Rows that are transformed together: rfft of rows of `length`, or irfft to such rows.
struct FourierRows {
  std::int64_t rows = 0, length = 0;
  bool inverse = false;
  DType dtype = DType::f32;
  auto operator<=>(const FourierRows&) const = default;
};

enum class FourierWay : std::uint8_t {
  op,       // unchanged: rfft, irfft
  product,  // a matrix product with constants
  pairs,    // rfft_pairs, irfft_pairs: a library that interleaves real and imaginary parts
};

/// The longest row for a product, whose constants have about length^2 values.
inline constexpr std::int64_t kLongestFourierProduct = 1024;

constexpr bool has_fourier_product(const FourierRows& rows) {
  return rows.length <= kLongestFourierProduct;
}

}  // namespace rewire::ir
