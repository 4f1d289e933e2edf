// What a plugin's file and descriptor may claim: the bytes of a library before the linker sees them, or
// (where the first byte is odd) a descriptor whose texts stand between zeros. A schema that is accepted takes
// its own defaults.
#include <string_view>
#include <vector>

#include "runtime/plugin/elf_file.h"
#include "runtime/plugin/handshake.h"
#include "runtime/plugin/schema.h"
#include "tests/fuzz/fuzz_folder.h"

namespace {

using namespace rewire;

constexpr std::size_t kMostParameters = 8;

struct Texts {
  std::string name, default_value, doc, values;
};

/// nullptr for "-": a field that the author left out.
const char* field(const std::string& text) {
  return text == "-" ? nullptr : text.c_str();
}

void read_descriptor(std::string_view text) {
  const std::string name = test::take_until(text, '\0'), version = test::take_until(text, '\0');
  std::vector<Texts> texts;
  std::vector<rewire_parameter> parameters;
  while (!text.empty() && texts.size() < kMostParameters) {
    texts.push_back({test::take_until(text, '\0'), test::take_until(text, '\0'), test::take_until(text, '\0'),
                     test::take_until(text, '\0')});
    const std::string numbers = test::take_until(text, '\0');
    const auto digit = [&](std::size_t i) { return i < numbers.size() ? numbers[i] - '0' : 0; };
    parameters.push_back({nullptr, nullptr, nullptr, nullptr, static_cast<std::uint32_t>(digit(0)),
                          static_cast<std::uint32_t>(digit(1)), static_cast<double>(digit(2)),
                          static_cast<double>(digit(3))});
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    parameters[i].name = field(texts[i].name);
    parameters[i].default_value = field(texts[i].default_value);
    parameters[i].doc = field(texts[i].doc);
    parameters[i].values = field(texts[i].values);
  }
  rewire_plugin plugin{};
  plugin.magic = REWIRE_PLUGIN_MAGIC;
  plugin.size = sizeof(plugin);
  plugin.abi = REWIRE_ABI_VERSION;
  plugin.sanitizer = REWIRE_SANITIZER;
  plugin.build_id = "a build";
  plugin.name = field(name);
  plugin.version = field(version);
  plugin.doc = "a doc";
  plugin.parameters = parameters.data();
  plugin.parameter_count = static_cast<std::uint32_t>(parameters.size());
  plugin.parameter_size = sizeof(rewire_parameter);
  plugin.rewrite = [](const rewire_host*, rewire_call) { return 0; };
  // Who opens a library makes one line of what is wrong with it.
  try {
    runtime::judge_descriptor(&plugin);
    for (const ir::ParameterSpec& parameter : runtime::read_schema(plugin)) {
      test::require(parameter.parse(parameter.default_text) == parameter.default_value);
      for (const std::string& edge : parameter.info().edges) parameter.parse(edge);
    }
  } catch (const UserError& error) {
    test::require(one_line(error.what()).find('\n') == std::string::npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  if (test::takes_other_way(text)) {
    read_descriptor(text);
  } else {
    test::accepted([&] {
      runtime::read_elf(std::as_bytes(std::span(text.data(), text.size())), "rewire_plugin_query");
    });
  }
  return 0;
}
