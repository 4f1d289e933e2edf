// Checks the nesting of a recipe's keys before toml++ reads it. toml++ destroys nested tables recursively,
// so a key "a.a.a. …" of some ten thousand parts would overflow the stack.
#pragma once

#include <optional>
#include <string_view>

namespace rewire::runtime {

/// A TOML file may begin with it.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// Limit for one key. toml++ nests values 256 deep, so tables are at most 16 x 257 deep.
inline constexpr int kMostKeyParts = 16;

/// Returns the line (from 1) of the first key of more than kMostKeyParts parts.
std::optional<int> line_of_deep_key(std::string_view text);

}  // namespace rewire::runtime
