// Takes a plugin spec apart: name[:key=value[,key=value]...]. Values stay text; the schema gives them
// meaning.
#include <algorithm>

#include "ir/error.h"
#include "runtime/io/files.h"
#include "runtime/plugin/plugin.h"

namespace rewire::runtime {

PluginSpec parse_plugin_spec(std::string_view text) {
  PluginSpec spec;
  const std::size_t colon = text.find(':');
  spec.name = text.substr(0, colon);
  if (spec.name.empty()) {
    user_error("plugin spec '{}' has no name: write name or name:key=value,key=value", printable(text));
  }
  if (spec.name.ends_with('/')) {
    user_error("plugin spec '{}' names a folder: write the path of the library in it, or --plugin-path {}",
               printable(text), printable(spec.name));
  }
  if (colon == std::string_view::npos) return spec;

  std::string_view rest = text.substr(colon + 1);
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      user_error("plugin spec '{}': '{}' is not key=value (join the values of a list by +)", printable(text),
                 printable(item));
    }
    const std::string key(item.substr(0, equals));
    if (std::ranges::any_of(spec.values, [&](const auto& value) { return value.first == key; })) {
      user_error("plugin spec '{}' sets '{}' twice", printable(text), printable(key));
    }
    spec.values.emplace_back(key, item.substr(equals + 1));
    if (comma == std::string_view::npos) return spec;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace rewire::runtime
