// The JSON header of a safetensors file as plain entries. The grammar is checked here; safetensors.cpp
// checks the meaning of the numbers. This header does not expose the JSON library.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rewire::runtime {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // as the format spells it: F32, BF16, BOOL, …
  std::vector<std::uint64_t> shape;
  std::array<std::uint64_t, 2> data_offsets{};  // [begin, end) in bytes of the data after the header
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the header's order
  std::map<std::string, std::string> metadata;
};

/// Parses a header. Throws UserError with the file's name, the fault and its tensor: text that is not JSON,
/// a value of the wrong kind (a float, a negative number, a nested object), or an unknown, missing or
/// repeated key.
SafetensorsHeader parse_safetensors_header(std::string_view json, const std::string& file_name);

/// Returns compact JSON: metadata first, then the entries in their order.
std::string print_safetensors_header(const SafetensorsHeader& header);

}  // namespace rewire::runtime
