// Computes erf from the exponential beside it, for a GPU. The gradient of GELU has both, of the same x:
//
//   erf(x / sqrt 2)   exp(-x^2 / 2)          a = x / sqrt 2,  e = exp(-a^2),  erf(a) = +-(1 - e F(|a|))
//
// F varies slowly, so a short polynomial of 1 / (1 + p |a|) gives it (prelude.cuh: erf_by_exp).
#pragma once

#include "codegen/tile/tile.h"

namespace rewire::codegen::tile {

/// Gives each erf of x / sqrt 2 in f32 that comes after exp(-x^2 / 2) the exponential as a second operand.
/// Writes the exponential as a power of two, which a GPU computes in one instruction.
void compute_erf_by_exp(Kernel& kernel);

}  // namespace rewire::codegen::tile
