// Conversions between opcodes and their names.
#include "ir/opcodes.h"

#include <array>
#include <unordered_map>

namespace rewire::ir {
namespace {

constexpr std::array<std::string_view, kOpcodeCount> kNames = {
#define REWIRE_OP(name, ...) #name,
#include "ir/ops/ops.def"
#undef REWIRE_OP
};

}  // namespace

std::string_view opcode_name(Opcode code) {
  return kNames[static_cast<std::size_t>(code)];
}

std::optional<Opcode> opcode_from_name(std::string_view name) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, Opcode> map;
    for (std::size_t i = 0; i < kOpcodeCount; ++i) map.emplace(kNames[i], static_cast<Opcode>(i));
    return map;
  }();
  const auto found = by_name.find(name);
  return found == by_name.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace rewire::ir
