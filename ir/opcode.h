// The names of the ops, as an enum made from the op table (ir/ops/ops.def).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

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

std::string_view opcode_name(Opcode code);
std::optional<Opcode> opcode_from_name(std::string_view name);

}  // namespace rewire::ir
