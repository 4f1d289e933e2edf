// Gives one code to kernels that differ only in numbers, such as the decay of each block's shortcut or the
// stream of each block's random draws. A number that is not the same in all of them leaves the text and
// becomes data, in a constant buffer of the launch. So code is compiled once, whatever the depth of the
// network.
//
// In: launches in execution order, each with its kernel. Out: the same launches; kernels that are equal but
// for such numbers have one structure (tile.h). A number stays in the text where all kernels agree on it,
// and where a printer uses its value: exponents, the start of a carried sum, and values that are stored,
// reduced or multiplied in a product as they are. Such numbers keep kernels apart.
#pragma once

#include "codegen/program.h"

namespace rewire::codegen {

void share_code(Program& program);

}  // namespace rewire::codegen
