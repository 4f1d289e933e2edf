#include "runtime/plugin/builds.h"

#include <nlohmann/json.hpp>

#include "runtime/io/json_view.h"

namespace rewire::runtime {

std::vector<PluginBuild> builds_of(const std::vector<PluginHandle>& plugins) {
  std::vector<PluginBuild> builds;
  for (const PluginHandle& plugin : plugins) {
    const PluginInfo& info = plugin_info(*plugin);
    builds.push_back({info.name, info.version, info.sha256});
  }
  return builds;
}

nlohmann::ordered_json to_json(const std::vector<PluginBuild>& builds) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const PluginBuild& plugin : builds)
    list.push_back({{"name", plugin.name}, {"version", plugin.version}, {"sha256", plugin.sha256}});
  return list;
}

std::vector<PluginBuild> builds_from_json(const JsonView& list) {
  std::vector<PluginBuild> builds;
  for (const JsonView& plugin : list.items()) {
    plugin.only({"name", "version", "sha256"});
    builds.push_back({plugin.at("name").text(), plugin.at("version").text(), plugin.at("sha256").text()});
  }
  return builds;
}

}  // namespace rewire::runtime
