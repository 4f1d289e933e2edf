// Makes foreign text (names, paths, a plugin's messages) safe to show to people: on a terminal, in a log, in
// a table. It hides characters that could move the cursor, hide or reorder the text beside them, or begin a
// new line:
//
//   C0 controls and DEL; C1 controls (U+0080 to U+009F); bytes that are not UTF-8
//   line and paragraph separators (U+2028, U+2029)
//   changes of the writing direction (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069)
//   characters without width that join nothing (U+200B, U+2060 to U+206F, U+FEFF, U+FFF9 to U+FFFB, and
//   U+E0000 to U+E007F)
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rewire {

/// A character of UTF-8, or one byte that is not UTF-8.
struct TextCharacter {
  std::string_view bytes;
  char32_t code = 0;  // the byte if `valid` is false
  bool valid = false;
  bool shown = false;  // shown unchanged
};
/// Returns the first character of `text`, which is not empty.
TextCharacter first_character(std::string_view text);

/// Writes each character that is not shown as \xNN (a byte or a control) or \u{NNNN}. Text that was made
/// printable before does not change.
std::string visible(std::string_view text);
/// Does as visible(), but keeps line feeds and tabs, for text of several lines.
std::string visible_lines(std::string_view text);
/// Writes each character that is not shown as one space, so that columns stay aligned.
std::string blanked(std::string_view text);

/// Returns at most the first `most` bytes, never half a character.
std::string_view cut(std::string_view text, std::size_t most);

}  // namespace rewire
