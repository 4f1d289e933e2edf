// The Fourier transform of R = 1, 2, 4 or 8 points over the parts of a slice, as sums of ops. A slice of n =
// R m elements has R parts of m. Its bin k is the sum over u of part u times w^u, w = exp(-2 pi i k / R).
// For real parts the first R / 2 + 1 bins determine all.
#pragma once

#include <vector>

#include "ir/builder.h"

namespace rewire::ir {

/// A complex value; `im` is invalid if it is zero.
struct ComplexValue {
  Value re, im;
};

/// Bins 0 to R / 2 of parts of one shape; bins 0 and R / 2 are real.
using Bins = std::vector<ComplexValue>;

/// Returns the bins of R real parts, R a power of two.
Bins emit_bins(Builder& builder, const std::vector<Value>& parts);
/// Returns R times the parts that have these bins.
std::vector<Value> emit_parts(Builder& builder, const Bins& bins);

}  // namespace rewire::ir
