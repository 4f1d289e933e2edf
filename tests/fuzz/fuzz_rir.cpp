// The .rir parser on any text: what it accepts prints as text that reads as the same module, and goes through
// the passes.
#include <algorithm>

#include "ir/passes/pass.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/fuzz/fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rewire;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ir::Module module;
  try {
    module = ir::parse(text, "input");
  } catch (const UserError& error) {
    const std::string_view message = error.what();
    test::require(message.starts_with("input:"));
    test::require(std::count(message.begin(), message.end(), '\n') == 2);
    test::require(message.size() < 4000);
    return 0;
  }
  const std::string printed = ir::print(module);
  test::require(ir::print(ir::parse(printed, "printed")) == printed);
  ir::PassContext context;
  ir::run_pipeline(module, context);
  ir::verify(module);
  return 0;
}
