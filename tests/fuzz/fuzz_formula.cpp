// The reader of formulas on any text: one formula, and a list of entries. What it reads is printed and read again as the
// same tree; what it refuses, it refuses with a caret below the text.
#include <string>

#include "formula/language.h"
#include "tests/fuzz/fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rewire;
  const formula::Source source{"join", std::string(reinterpret_cast<const char*>(data), size)};
  try {
    const std::string text = formula::to_text(formula::parse(source));
    test::require(formula::to_text(formula::parse({"join", text})) == text);
  } catch (const formula::Error& error) {
    const std::string message = error.what();
    test::require(message.ends_with('^') && message.find("\n  join = ") != std::string::npos);
  }
  try {
    for (const formula::Entry& entry : formula::parse_entries(source)) test::require(!entry.name.empty());
  } catch (const formula::Error& error) {
    test::require(std::string(error.what()).ends_with('^'));
  }
  return 0;
}
