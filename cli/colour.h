// Colours code for a terminal: names of values, ops, types, strings and comments.
#pragma once

#include <string>
#include <string_view>

namespace rewire::cli {

/// The language of a text, which decides how comments begin. A line of a diff is coloured by its first
/// characters.
enum class Syntax { rir, llvm, assembly, cpp, diff };

/// Returns whether to colour: "always", "never", or "auto": if stdout is a terminal that is not dumb and
/// $NO_COLOR is not set.
bool wants_colours(const std::string& choice);

/// Adds escape sequences of colours to the text, which must have none. Nothing else changes.
std::string coloured(std::string_view text, Syntax syntax);

}  // namespace rewire::cli
