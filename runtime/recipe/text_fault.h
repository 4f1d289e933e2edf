// What a recipe's text must be free of before toml++ sees it.
//
// toml++ 3.3 asks of every character outside comments and one-line strings whether it is white space, and of
// some beyond ASCII (U+00A7, U+03E7) that question has undefined behaviour. And it destroys nested tables
// recursively: a key "a.a.a. …" of a megabyte overflows the stack.
#pragma once

#include <optional>
#include <string_view>

namespace rewire::runtime {

struct TextFault {
  int line = 1;
  std::string_view what;
};

/// The first character beyond ASCII that stands neither in a comment nor in a string of one line (TOML itself
/// allows them nowhere else but in strings of several lines), or the first key of more than 16 parts. toml++
/// nests values 256 deep, so tables come to lie no deeper than 16 x 257.
std::optional<TextFault> text_fault(std::string_view text);

}  // namespace rewire::runtime
