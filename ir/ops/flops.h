// What an op costs beside the memory it moves: what decides between computing again and storing.
#pragma once

#include <cstdint>

#include "ir/opcode.h"

namespace rewire::ir {

/// Floating-point operations an element of the result, roughly, as a vectorised kernel does them: 0 for what
/// only moves elements along, 1 for add, 20 for exp.
std::int64_t flops_per_element(Opcode code);

}  // namespace rewire::ir
