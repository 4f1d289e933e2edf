// The recipe reader on any text: what it accepts is written as text that reads as the same recipe.
#include "runtime/recipe/recipe.h"
#include "tests/fuzz/fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rewire;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string written;
  if (!test::accepted([&] { written = runtime::to_toml(runtime::parse_recipe(text, "input")); })) return 0;
  test::require(runtime::to_toml(runtime::parse_recipe(written, "written")) == written);
  return 0;
}
