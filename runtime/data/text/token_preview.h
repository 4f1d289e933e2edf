// Windows of tokens as text, for `rewire data preview`.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/data/text/token_source.h"

namespace rewire::runtime {

/// Returns the window in `sample` as text: what the tokenizer says the tokens are, or their ids if it is unknown.
/// <|end|> is the end of a document. A line "--- document N ---" begins each document of a packed window, and
/// "--- N positions of padding ---" ends a window that is not full.
std::string window_text(const TokenSource& source, const Sample& sample);

}  // namespace rewire::runtime
