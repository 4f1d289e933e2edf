// The reader of plugin specs on any text: the same values in quotes, written anew, are read as the same spec.
#include <string>
#include <string_view>

#include "runtime/plugin/plugin.h"
#include "tests/fuzz/fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rewire;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  runtime::PluginSpec spec;
  if (!test::accepted([&] { spec = runtime::parse_plugin_spec(text); })) return 0;
  std::string written = spec.name;
  for (const auto& [key, value] : spec.values) {
    const char quote = value.find('"') == std::string::npos ? '"' : '\'';
    if (value.find(quote) != std::string::npos) return 0;  // it has both, which no quoted value can hold
    written += (&key == &spec.values.front().first ? ":" : ",") + key + "=" + quote + value + quote;
  }
  const runtime::PluginSpec again = runtime::parse_plugin_spec(written);
  test::require(again.name == spec.name && again.values == spec.values);
  return 0;
}
