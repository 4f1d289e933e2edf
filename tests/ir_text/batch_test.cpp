// Modules whose text leaves the batch open.
#include <string>

#include "ir/error.h"
#include "ir/text.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::ir {
namespace {

const std::string kOpen = R"(module @m {
  func @forward(%x: f32[batch,4,6]) -> (y: f32[2*batch,2,6]) {
    %0 = reshape %x : f32[2*batch,2,6]
    %1 = slice %x {limits = [batch, 2, 6], starts = [0, 0, 0]} : f32[batch,2,6]
    %2 = slice %x {limits = [batch, 4, 6], starts = [0, 2, 0]} : f32[batch,2,6]
    %3 = concat %1, %2 {axis = 0} : f32[2*batch,2,6]
    %4 = add %0, %3 : f32[2*batch,2,6]
    return y = %4
  }
}
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

}  // namespace

TEST_CASE("A text for any batch is the module of the batch that is asked for", "[ir][text]") {
  for (const std::int64_t batch : {1, 2, 7}) {
    CAPTURE(batch);
    const ParsedModule parsed = parse_for_batch(kOpen, "m.rir", batch);
    CHECK(parsed.any_batch);
    const std::string twice = std::to_string(2 * batch), once = std::to_string(batch);
    const std::string closed = replaced(replaced(kOpen, "2*batch", twice), "batch", once);
    CHECK(print(parsed.module) == closed);
    const ParsedModule again = parse_for_batch(closed, "m.rir", 99);
    CHECK_FALSE(again.any_batch);
    CHECK(print(again.module) == closed);
  }
  CHECK(print(parse(kOpen)) == print(parse_for_batch(kOpen, "m.rir", 1).module));
}

TEST_CASE("The word batch stays a name where a name may be", "[ir][text]") {
  const std::string text =
      "module @batch {\n  attribute batch = 3\n\n  func @batch(%batch: f32[2]) -> (batch: f32[2]) {\n"
      "    return batch = %batch\n  }\n}\n";
  const ParsedModule parsed = parse_for_batch(text, "m.rir", 5);
  CHECK_FALSE(parsed.any_batch);
  CHECK(print(parsed.module) == text);
}

TEST_CASE("A batch that makes an extent too large is refused", "[ir][text]") {
  const std::string text =
      "module @m {\n  func @f(%x: f32[4611686018427387904*batch]) -> () {\n    return\n  }\n}\n";
  CHECK(test::message_of<UserError>([&] {
          parse_for_batch(text, "m.rir", 2);
        }).starts_with("m.rir:2:39: 4611686018427387904 batches are too many\n"));
}

}  // namespace rewire::ir
