// What of a text a terminal is shown: every kind of byte that could do more there than stand in its place.
#include "ir/printable.h"

#include <fmt/format.h>

#include <vector>

#include "ir/error.h"
#include "ir/text.h"
#include "ir/text_lexer.h"
#include "tests/support/catch.h"

using namespace rewire;

namespace {

std::string utf8(char32_t code) {
  std::string bytes;
  const auto tail = [&](int shift) { bytes += static_cast<char>(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) {
    bytes += static_cast<char>(code);
  } else if (code < 0x800) {
    bytes += static_cast<char>(0xc0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    bytes += static_cast<char>(0xe0 | code >> 12);
    tail(6);
    tail(0);
  } else {
    bytes += static_cast<char>(0xf0 | code >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
  return bytes;
}

}  // namespace

TEST_CASE("What a terminal shows as itself stays", "[ir][printable]") {
  for (const char* text :
       {"", "blocks.0.norm.weight", "größe", "Ω ≈ 3", "日本語", "👩‍🔬", "a\\x1b", "…"}) {
    CHECK(visible(text) == text);
    CHECK(visible_lines(text) == text);
    CHECK(blanked(text) == text);
  }
}

TEST_CASE("Every control is made visible, as a byte and as UTF-8", "[ir][printable]") {
  for (char32_t code = 0; code < 0xa0; ++code) {
    if (code >= 0x20 && code < 0x7f) continue;
    CAPTURE(static_cast<std::uint32_t>(code));
    const std::string raw(1, static_cast<char>(code));
    CHECK(visible("a" + raw + "b") == fmt::format("a\\x{:02x}b", static_cast<std::uint32_t>(code)));
    CHECK(blanked("a" + raw + "b") == "a b");
    if (code < 0x80) continue;
    CHECK(visible("a" + utf8(code) + "b") == fmt::format("a\\u{{{:x}}}b", static_cast<std::uint32_t>(code)));
    CHECK(blanked("a" + utf8(code) + "b") == "a b");
  }
}

TEST_CASE("What reorders, hides or breaks a line is made visible", "[ir][printable]") {
  std::vector<char32_t> codes = {0x61c,  0x200b, 0x200e, 0x200f,  0x2028,  0x2029, 0xfeff,
                                 0xfff9, 0xfffb, 0xffff, 0xe0001, 0xe0041, 0xe007f};
  for (char32_t code = 0x202a; code <= 0x202e; ++code) codes.push_back(code);
  for (char32_t code = 0x2060; code <= 0x206f; ++code) codes.push_back(code);
  for (const char32_t code : codes) {
    CAPTURE(static_cast<std::uint32_t>(code));
    CHECK(visible(utf8(code)) == fmt::format("\\u{{{:x}}}", static_cast<std::uint32_t>(code)));
    CHECK(blanked(utf8(code)) == " ");
  }
}

TEST_CASE("Bytes that are no UTF-8 are made visible one by one", "[ir][printable]") {
  struct Case {
    std::string text, expected;
  };
  const std::vector<Case> cases = {
      {"\xc0\xaf", "\\xc0\\xaf"},                    // '/' in two bytes
      {"\xc1\xbf", "\\xc1\\xbf"},                    // DEL in two
      {"\xe0\x80\xaf", "\\xe0\\x80\\xaf"},           // '/' in three
      {"\xe0\x82\x9b", "\\xe0\\x82\\x9b"},           // CSI in three
      {"\xf0\x80\x82\x9b", "\\xf0\\x80\\x82\\x9b"},  // and in four
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},           // half of a UTF-16 pair
      {"\xed\xbf\xbf", "\\xed\\xbf\\xbf"},
      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},  // beyond Unicode
      {"\xf5\x80\x80\x80", "\\xf5\\x80\\x80\\x80"},
      {"\xf8\x88\x80\x80\x80", "\\xf8\\x88\\x80\\x80\\x80"},
      {"\xfe\xff", "\\xfe\\xff"},
      {"a\x80z", "a\\x80z"},  // a tail alone
      {"\xc3", "\\xc3"},      // cut short, at the end and before another
      {"\xe2\x80", "\\xe2\\x80"},
      {"\xf0\x9f\x91", "\\xf0\\x9f\\x91"},
      {"\xc3"
       "a",
       "\\xc3"
       "a"},
      {"\xe2\x80"
       "a",
       "\\xe2\\x80"
       "a"},
      {"\xe2\xc3\xbc", "\\xe2\xc3\xbc"},
      {"\xf0\x9f\x91\x1b[m", "\\xf0\\x9f\\x91\\x1b[m"},
  };
  for (const auto& [text, expected] : cases) {
    CHECK(visible(text) == expected);
    CHECK(visible(visible(text)) == expected);
  }
}

TEST_CASE("Of any two bytes nothing is left that a terminal acts on", "[ir][printable]") {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string text = visible(std::string{static_cast<char>(first), static_cast<char>(second)});
      std::string_view left = text;
      while (!left.empty()) {
        const TextCharacter character = first_character(left);
        REQUIRE(character.valid);
        REQUIRE(character.shown);
        left.remove_prefix(character.bytes.size());
      }
    }
  }
}

TEST_CASE("A text with lines keeps them and its tabs, and nothing else", "[ir][printable]") {
  CHECK(visible_lines("a\n\tb\r\x1b[2J\v\f") == "a\n\tb\\x0d\\x1b[2J\\x0b\\x0c");
  CHECK(one_line("a\n\tb\xc2\x9b\xe2\x80\xae\xff") == "a  b   ");
}

TEST_CASE("A message of a few lines keeps its first eight lines", "[ir][printable]") {
  CHECK(few_lines("a\tb\nc\x1b[2J\n^") == "a b\nc [2J\n^");
  CHECK(few_lines("one") == "one");
  CHECK(few_lines("1\n2\n3\n4\n5\n6\n7\n8\n9") == "1\n2\n3\n4\n5\n6\n7\n8 …");
  CHECK(few_lines(std::string(2001, 'x')) == std::string(2000, 'x') + " …");
}

TEST_CASE("A text is never cut within a character", "[ir][printable]") {
  CHECK(cut("größe", 3) == "gr");
  CHECK(cut("größe", 4) == "grö");
  CHECK(cut("größe", 7) == "größe");
  CHECK(cut("👩", 3) == "");
  CHECK(cut(std::string(9, '\x80'), 5) == std::string(2, '\x80'));  // whatever that is
  CHECK(one_line(std::string(1999, 'x') + "ö") == std::string(1999, 'x') + " …");
}

TEST_CASE("Names of any bytes are printed visibly and read again as they were", "[ir][text][printable]") {
  ir::Module module;
  module.name = "a\x1b]0;x\x07\xc2\x9b\xe2\x80\xae\xff\xc3 größe \"\\\n\t";
  module.attributes.set("note", std::string("\x01\x80"));
  const std::string text = ir::print(module);
  CHECK(visible_lines(text) == text);
  const ir::Module read = ir::parse(text, "m.rir");
  CHECK(read.name == module.name);
  CHECK(read.attributes.get_string("note") == std::string("\x01\x80"));
  CHECK(ir::print(read) == text);
}

TEST_CASE("An error in a text shows the place without acting on the terminal", "[ir][text][printable]") {
  try {
    ir::parse("module @m {\n  \xc2\x9b\xe2\x80\xaeö \xff& }", "\x1b[2Jf\n.rir");
    FAIL("it is refused");
  } catch (const UserError& error) {
    const std::string text = error.what();
    CHECK(visible_lines(text) == text);
    CHECK(std::ranges::count(text, '\n') == 2);
    CHECK(text.starts_with("\\x1b[2Jf\\x0a.rir:2:3: unexpected byte 0xc2\n    ö  & }\n  ^"));
  }
}
