#include "cli/json.h"

#include <fmt/format.h>

#include <iterator>

namespace rewire::cli {

std::string escaped_json(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  const auto write = [&](std::uint32_t unit) {
    fmt::format_to(std::back_inserter(escaped), "\\u{:04x}", unit);
  };
  while (!text.empty()) {
    const TextCharacter character = first_character(text);
    const auto code = static_cast<std::uint32_t>(character.code);
    if (character.shown || code == '\n') {
      escaped += character.bytes;
    } else if (code < 0x10000) {
      write(code);
    } else {  // writes a surrogate pair of UTF-16
      write(0xd800 + ((code - 0x10000) >> 10));
      write(0xdc00 + ((code - 0x10000) & 0x3ff));
    }
    text.remove_prefix(character.bytes.size());
  }
  return escaped;
}

}  // namespace rewire::cli
