// Code in colours, for a terminal: names of values, ops, types, strings and comments.
#pragma once

#include <string>
#include <string_view>

namespace rewire::cli {

/// What a text is: it decides how comments begin. A diff's lines are of what they begin with.
enum class Syntax { rir, llvm, assembly, cpp, diff };

/// "always", "never", or "auto": where stdout is a terminal that is not dumb, and $NO_COLOR is not set.
bool wants_colours(const std::string& choice);

/// The text, which has no escape sequences, with those of colours in it: without them it is the text.
std::string coloured(std::string_view text, Syntax syntax);

}  // namespace rewire::cli
