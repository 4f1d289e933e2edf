// What a recipe's text must pass before toml++ sees it: toml++ 3.3 asks of every character outside comments
// and one-line strings whether it is white space, and of some beyond ASCII (U+00A7, U+03E7) that question has
// undefined behaviour.
#pragma once

#include <optional>
#include <string_view>

namespace rewire::runtime {

/// The line, from 1, of the first character beyond ASCII that stands neither in a comment nor in a string of
/// one line. TOML itself allows such characters nowhere else but in strings of several lines.
std::optional<int> stray_character_line(std::string_view text);

}  // namespace rewire::runtime
