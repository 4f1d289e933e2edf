// Lowerings of a block-circulant product. C(c) is a matrix of p q blocks of n lags. Splitting a slice of n =
// R m at the R-th roots of unity, by a small Fourier transform of R points, leaves R / 2 + 1 products with
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

/// Returns 2, 4 or 8 for a split, else 1.
int split_radix(std::string_view lowering);

/// The sizes of a product, from its operands.
struct CirculantSizes {
  std::int64_t outputs = 1, inputs = 1, lags = 1;
};

/// Returns the possible lowerings, the fastest first by a model of operations and bytes. They depend on
/// sizes and dtype only.
std::vector<std::string> circulant_candidates(const CirculantSizes& sizes, DType dtype);

}  // namespace rewire::ir
