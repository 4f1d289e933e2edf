// Emits kernels that belong to no group: copies, and sums of a reduction's partial results.
#pragma once

#include <cstdint>
#include <string>

#include "codegen/program.h"

namespace rewire::codegen {

/// Emits to[...] = from[...], element by element, through strides.
KernelLaunch emit_copy(const Program& program, const View& from, const View& to, const std::string& location,
                       const WorkGrain& grain);

/// Emits `home` = sum (or max) of a reduction's partial results [partitions, shape of home], in their order.
KernelLaunch emit_finish(const Program& program, const ir::Op& reduction, std::int32_t partials,
                         std::int64_t partitions, const View& home);

}  // namespace rewire::codegen
