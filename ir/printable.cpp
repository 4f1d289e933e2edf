#include "ir/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace rewire {
namespace {

struct Range {
  char32_t first, last;
};

constexpr std::array<Range, 13> kNotShown = {{{0x00, 0x1f},
                                              {0x7f, 0x9f},
                                              {0x61c, 0x61c},
                                              {0x200b, 0x200b},
                                              {0x200e, 0x200f},
                                              {0x2028, 0x2029},
                                              {0x202a, 0x202e},
                                              {0x2060, 0x206f},
                                              {0xfeff, 0xfeff},
                                              {0xfff9, 0xfffb},
                                              {0xfffe, 0xffff},
                                              {0xe0000, 0xe007f},
                                              {0x110000, 0xffffffff}}};

bool is_shown(char32_t code) {
  return std::ranges::none_of(
      kNotShown, [code](const Range& range) { return code >= range.first && code <= range.last; });
}

std::uint8_t byte_at(std::string_view text, std::size_t at) {
  return static_cast<std::uint8_t>(text[at]);
}

bool continues(std::uint8_t byte) {
  return (byte & 0xc0) == 0x80;
}

/// Returns the length of the character that `lead` begins, or 0 if it begins none.
std::size_t length_of(std::uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return 2;  // c0 and c1 only begin overlong codes
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  if (lead >= 0xf0 && lead <= 0xf4) return 4;
  return 0;
}

/// Returns whether the code is not overlong, is no half of a UTF-16 pair, and is within Unicode.
bool is_code(char32_t code, std::size_t length) {
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  return code >= kLeast[length] && (code < 0xd800 || code > 0xdfff) && code <= 0x10ffff;
}

template <class Write>
std::string written(std::string_view text, const Write& write) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const TextCharacter character = first_character(text);
    if (character.shown) {
      result += character.bytes;
    } else {
      write(result, character);
    }
    text.remove_prefix(character.bytes.size());
  }
  return result;
}

void write_code(std::string& result, const TextCharacter& character) {
  const auto code = static_cast<std::uint32_t>(character.code);
  if (!character.valid || code < 0x80) {
    fmt::format_to(std::back_inserter(result), "\\x{:02x}", code);
  } else {
    fmt::format_to(std::back_inserter(result), "\\u{{{:x}}}", code);
  }
}

}  // namespace

TextCharacter first_character(std::string_view text) {
  const std::uint8_t lead = byte_at(text, 0);
  if (lead >= 0x20 && lead < 0x7f) return {text.substr(0, 1), lead, true, true};  // the usual case
  const std::size_t length = length_of(lead);
  TextCharacter character{text.substr(0, 1), lead, false, false};
  if (length == 0 || length > text.size()) return character;
  char32_t code = length == 1 ? lead : lead & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (!continues(byte_at(text, i))) return character;
    code = code << 6 | (byte_at(text, i) & 0x3fU);
  }
  if (length > 1 && !is_code(code, length)) return character;
  return {text.substr(0, length), code, true, is_shown(code)};
}

std::string visible(std::string_view text) {
  return written(text, write_code);
}

std::string visible_lines(std::string_view text) {
  return written(text, [](std::string& result, const TextCharacter& character) {
    if (character.code == '\n' || character.code == '\t') {
      result += character.bytes;
    } else {
      write_code(result, character);
    }
  });
}

std::string blanked(std::string_view text) {
  return written(text, [](std::string& result, const TextCharacter&) { result += ' '; });
}

std::string_view cut(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t length = most;
  for (std::size_t back = 0; back < 3 && length > 0 && continues(byte_at(text, length)); ++back) --length;
  return text.substr(0, length);
}

}  // namespace rewire
