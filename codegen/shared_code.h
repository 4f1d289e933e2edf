// One code for kernels that differ in numbers alone: the decay of each block's shortcut, the stream of each
// block's random draws. A number that is not the same in all of them leaves the text and becomes data, a
// constant buffer of the launch: code is compiled once, whatever the depth of the network.
//
// In: launches in execution order, each with its kernel. Out: the same launches; kernels that are equal but
// for such numbers have one structure (tile.h). A number stays in the text where all kernels agree on it, and
// where a printer makes something of it: exponents, the value that a carried sum starts from, what is stored,
// reduced or multiplied as it is. Those keep kernels apart.
#pragma once

#include "codegen/program.h"

namespace rewire::codegen {

void share_code(Program& program);

}  // namespace rewire::codegen
