// Names and strings become C strings elsewhere: none holds a NUL, spelled as a byte or as an escape.
#include "ir/error.h"
#include "ir/text.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::ir {
namespace {

using namespace std::string_literals;

TEST_CASE("A NUL in a name or string is refused where it stands") {
  const auto fault = [](const std::string& text) {
    const std::string message = test::message_of<UserError>([&] { parse(text, "m.rir"); });
    return message.substr(0, message.find('\n'));
  };
  CHECK(fault("module @\"a\0\" {}"s) == "m.rir:1:11: a string or name holds no NUL character");
  CHECK(fault("module @\"a\\x00\" {}") == "m.rir:1:11: a string or name holds no NUL character");
  CHECK(fault("module @m { attribute a = \"\0\" }"s) ==
        "m.rir:1:28: a string or name holds no NUL character");
  CHECK(fault("module @m\0 {}"s) == "m.rir:1:10: unexpected byte 0x00");
}

}  // namespace
}  // namespace rewire::ir
