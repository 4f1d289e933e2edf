// The ops, as an enum made from the op table (ir/ops/ops.def). Sources include this; headers include
// ir/opcode.h.
#pragma once

#include <cstddef>

#include "ir/opcode.h"

namespace rewire::ir {

enum class Opcode : std::uint16_t {
#define REWIRE_OP(name, ...) name,
#include "ir/ops/ops.def"
#undef REWIRE_OP
};

inline constexpr std::size_t kOpcodeCount = 0
#define REWIRE_OP(...) +1
#include "ir/ops/ops.def"
#undef REWIRE_OP
    ;

}  // namespace rewire::ir
