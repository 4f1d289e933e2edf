// How a block-circulant product is computed. C(c) is a matrix of p q blocks of n lags; splitting a slice of n
// = R m at the R-th roots of unity, a small Fourier transform of R points, leaves R / 2 + 1 products with
// blocks of m:
//   dense            C(c) itself, and one matrix product: 2 q n p n operations a row
//   split2 4 8       R = 2, 4, 8: 1/2, 3/8, 7/32 of those operations, and the transforms of x and y
//   fft              transforms of n points by the FFT library, and a product of two spectra
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/types.h"

namespace rewire::ir {

inline constexpr std::string_view kCirculantLowerings[] = {"auto",   "dense",  "split2",
                                                           "split4", "split8", "fft"};

/// 2, 4 or 8 of a split; 1 of the others.
int split_radix(std::string_view lowering);

/// The sizes of a product, as its operands give them.
struct CirculantSizes {
  std::int64_t outputs = 1, inputs = 1, lags = 1;
};

/// The lowerings that can be, by a model of operations and bytes the fastest first: a function of sizes and
/// dtype alone.
std::vector<std::string> circulant_candidates(const CirculantSizes& sizes, DType dtype);

}  // namespace rewire::ir
