// Rewrites products that a library does not take as they are, with copies around them. Either the bias goes
// into the result first and the product is added to it (the sum is rounded once, as before). Or matrices are
// copied to another layout: matrices whose rows do not begin at multiples of 16 bytes, and results whose
// rows do not follow each other from one product of a batch to the next.
#pragma once

#include <cstdint>
#include <functional>

#include "codegen/library/device_gemm.h"
#include "codegen/program.h"

namespace rewire::codegen {

/// A library's answer to a product, the best first.
enum class GemmAnswer : std::uint8_t { one_call, call_a_product, none };

/// Rewrites each GEMM in the way with the fewest calls, and among those with the fewest copies. A product
/// stays as it is if the library takes it in no way, or if it has an epilogue.
void fit_gemms(Program& program, const std::function<GemmAnswer(const DeviceGemmShape&)>& ask, bool tf32,
               const WorkGrain& grain);

}  // namespace rewire::codegen
