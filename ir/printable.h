// Text of others (names, paths, a plugin's words) where a person reads it: on a terminal, in a log, in a
// table. What is not shown there as itself could move the cursor, hide or reorder what stands beside it, or
// begin a line of its own. That is:
//
//   C0 controls and DEL; C1 controls (U+0080 to U+009F); bytes that are no UTF-8
//   line and paragraph separators (U+2028, U+2029)
//   what turns the direction of writing (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069)
//   what has no width and joins nothing (U+200B, U+2060 to U+206F, U+FEFF, U+FFF9 to U+FFFB, U+E0000 to
//   U+E007F)
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rewire {

/// A character of UTF-8, or one byte that begins none.
struct TextCharacter {
  std::string_view bytes;
  char32_t code = 0;  // the byte where `valid` is false
  bool valid = false;
  bool shown = false;  // as itself
};
/// The first of `text`, which is not empty.
TextCharacter first_character(std::string_view text);

/// Each character that is not shown as \xNN (a byte or a control) or \u{NNNN}. What was made printable before
/// stays as it is.
std::string visible(std::string_view text);
/// The same, but line feeds and tabs are kept: of a text that has lines of its own.
std::string visible_lines(std::string_view text);
/// Each character that is not shown as one space: what stands below it stays below it.
std::string blanked(std::string_view text);

/// The first `most` bytes or fewer: never half a character.
std::string_view cut(std::string_view text, std::size_t most);

}  // namespace rewire
