// The JSON header of a safetensors file, as plain entries: the grammar is checked here, what the numbers mean
// in safetensors.cpp. The JSON library stays behind this file.
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

/// UserError naming the file, the fault and the tensor it is in: text that is no JSON, a value of another
/// kind than the format has there (a float, a negative number, an object within an object), an unknown,
/// missing or repeated key.
SafetensorsHeader parse_safetensors_header(std::string_view json, const std::string& file_name);

/// Compact JSON: metadata first, then the entries in their order.
std::string print_safetensors_header(const SafetensorsHeader& header);

}  // namespace rewire::runtime
