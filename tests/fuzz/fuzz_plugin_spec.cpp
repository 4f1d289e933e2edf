// The reader of plugin specs on any text: what it accepts is the same text when it is put together again.
#include <string>
#include <string_view>

#include "runtime/plugin/plugin.h"
#include "tests/fuzz/fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rewire;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  runtime::PluginSpec spec;
  if (!test::accepted([&] { spec = runtime::parse_plugin_spec(text); })) return 0;
  std::string joined = spec.name;
  for (const auto& [key, value] : spec.values)
    joined += (&key == &spec.values.front().first ? ":" : ",") + key + "=" + value;
  test::require(joined == text);
  return 0;
}
