// Names become C strings elsewhere: none holds a NUL, spelled as a byte or as an escape.
#include "ir/error.h"
#include "ir/text.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::ir {
namespace {

using namespace std::string_literals;

TEST_CASE("A NUL in a name is refused where the name stands") {
  const auto fault = [](const std::string& text) {
    const std::string message = test::message_of<UserError>([&] { parse(text, "m.rir"); });
    return message.substr(0, message.find('\n'));
  };
  const std::string names = ": a name must not contain a NUL character";
  CHECK(fault("module @\"a\0\" {}"s) == "m.rir:1:8" + names);
  CHECK(fault("module @\"a\\x00\" {}") == "m.rir:1:8" + names);
  CHECK(fault("module @m { attribute \"a\\x00\" = 1 }") == "m.rir:1:23" + names);
  CHECK(fault("module @m { param @w : f32[1] {role = \"a\\x00\"} }") == "m.rir:1:39" + names);
  CHECK(fault("module @m { func @f(%\"x\\x00\": f32[1]) -> () { return } }") == "m.rir:1:21" + names);
  CHECK(fault("module @m { func @f() -> (\"y\\x00\": f32[1]) { return } }") == "m.rir:1:27" + names);
  CHECK(fault("module @m\0 {}"s) == "m.rir:1:10: unexpected byte 0x00");
}

}  // namespace
}  // namespace rewire::ir
