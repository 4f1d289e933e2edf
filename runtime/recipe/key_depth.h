// How deep a recipe's keys nest, told before toml++ reads it: it destroys nested tables recursively, so that
// a key "a.a.a. …" of some ten thousand parts would overflow the stack.
#pragma once

#include <optional>
#include <string_view>

namespace rewire::runtime {

/// A TOML file may begin with it.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// Of one key. toml++ nests values 256 deep, so tables come to lie no deeper than 16 x 257.
inline constexpr int kMostKeyParts = 16;

/// The line (from 1) of the first key of more than kMostKeyParts parts.
std::optional<int> line_of_deep_key(std::string_view text);

}  // namespace rewire::runtime
