// Products that a library does not take as they stand are put another way, with copies around them: the bias
// goes into the result first and the product is added to it (the sum is rounded once, as before), or matrices
// whose rows do not begin at multiples of 16 bytes, and results whose rows do not follow each other from one
// product of a batch to the next, are laid out so that they do.
#pragma once

#include <cstdint>
#include <functional>

#include "codegen/library/device_gemm.h"
#include "codegen/program.h"

namespace rewire::codegen {

/// How a library takes a product: the best first.
enum class GemmAnswer : std::uint8_t { one_call, call_a_product, none };

/// The way of each GEMM that costs the fewest calls, and of those the one with the fewest copies. A product
/// that the library takes in no way stays as it is, and so does one with an epilogue.
void fit_gemms(Program& program, const std::function<GemmAnswer(const DeviceGemmShape&)>& ask, bool tf32,
               const WorkGrain& grain);

}  // namespace rewire::codegen
