// Kernels that belong to no group: copies, and the sums of what the parts of a reduction left.
#pragma once

#include <cstdint>
#include <string>

#include "codegen/program.h"

namespace rewire::codegen {

/// to[...] = from[...], element by element, through strides.
KernelLaunch emit_copy(const Program& program, const View& from, const View& to, const std::string& location,
                       const WorkGrain& grain);

/// `home` = sum (or max) of the partial results [partitions, shape of home] of a reduction, in their order.
KernelLaunch emit_finish(const Program& program, const ir::Op& reduction, std::int32_t partials,
                         std::int64_t partitions, const View& home);

}  // namespace rewire::codegen
