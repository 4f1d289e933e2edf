// What JSON allows and the format does not: bytes before and behind the header's object, a NUL in a name.
#include <cstring>
#include <string>

#include "ir/error.h"
#include "runtime/io/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

using namespace std::string_literals;

std::string fault(const std::string& header) {
  const std::uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  file += header + "x";
  const std::string prefix = "w.safetensors: not a readable safetensors file: ";
  const std::string message = test::message_of<UserError>(
      [&] { parse_safetensors(std::as_bytes(std::span(file.data(), file.size())), "w.safetensors"); });
  return message.starts_with(prefix) ? message.substr(prefix.size()) : message;
}

const std::string kEntry = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
const std::string kGood = "{\"a\":" + kEntry + "}";

TEST_CASE("Nothing stands before the header's object or behind it but spaces") {
  CHECK(fault(kGood) == "(nothing was thrown)");
  CHECK(fault(kGood + "   ") == "(nothing was thrown)");
  const std::string end = std::to_string(kGood.size() + 1);
  CHECK(fault(kGood + "\0"s) == "the header is not JSON at byte " + end);
  CHECK(fault(kGood + "\0{\"b\":1}"s) == "the header is not JSON at byte " + end);
  CHECK(fault(kGood + " \0\0\0"s) == "the header is not JSON at byte " + std::to_string(kGood.size() + 2));
  CHECK(fault(kGood + "{}") == "the header is not JSON at byte " + end);
  for (const std::string before : {" ", "\n", "\t", "\r", "\xef\xbb\xbf"}) {
    CAPTURE(before);
    CHECK(fault(before + kGood) == "the header does not begin with '{'");
  }
}

TEST_CASE("A tensor's name holds no NUL") {
  CHECK(fault("{\"a\\u0000b\":" + kEntry + "}") == "the name 'a\\x00b' holds a NUL character");
}

}  // namespace
}  // namespace rewire::runtime
