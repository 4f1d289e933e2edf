// An op's code and name. ir/opcodes.h lists the ops; code that needs only the type does not depend on the op
// table.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace rewire::ir {

enum class Opcode : std::uint16_t;

std::string_view opcode_name(Opcode code);
std::optional<Opcode> opcode_from_name(std::string_view name);

}  // namespace rewire::ir
