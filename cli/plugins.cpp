// rewire plugins: lists the residual strategies that are found, and the parameters of each.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/network.h"
#include "cli/parameters.h"
#include "cli/streams.h"
#include "cli/topics.h"
#include "runtime/plugin/plugin.h"

namespace rewire::cli {
namespace {

struct PluginsRequest {
  std::string name;
  std::vector<std::string> plugin_path;
  bool json = false;
};

void declare_list(PluginsRequest& request, Options& options) {
  declare_plugin_path(request.plugin_path, options);
  options.flag("--json", request.json, "print a list of objects");
  options.example("rewire plugins", "list what is found, and where");
  options.example("rewire plugins --plugin-path ./mine/build", "also list a folder of your own");
}

void declare_info(PluginsRequest& request, Options& options) {
  options.text("NAME", request.name, "a plugin's name, or the path of its library", Options::Need::required)
      .takes(Values::plugin_name);
  declare_plugin_path(request.plugin_path, options);
  options.flag("--json", request.json, "print an object");
  options.example("rewire plugins info ./mine/build/mine.so", "print a library's doc and parameters");
}

nlohmann::ordered_json describe(const runtime::PluginInfo& info) {
  return {{"name", info.name},
          {"version", info.version},
          {"doc", info.doc},
          {"path", info.path},
          {"sha256", info.sha256}};
}

void list(const PluginsRequest& request) {
  const std::vector<runtime::PluginInfo> plugins = runtime::list_plugins(request.plugin_path);
  if (request.json) {
    nlohmann::ordered_json objects = nlohmann::ordered_json::array();
    for (const runtime::PluginInfo& info : plugins) objects.push_back(describe(info));
    print_json(objects);
    return;
  }
  for (const runtime::PluginInfo& info : plugins) {
    print("{} {}: {}\n  {}\n", info.name, info.version, info.doc, info.path);
  }
  if (plugins.empty()) {
    print("no plugin in {}\n",
          fmt::format("{}", fmt::join(runtime::plugin_search_path(request.plugin_path), ", ")));
  }
}

void info(const PluginsRequest& request) {
  const runtime::PluginInfo facts = runtime::inspect_plugin(request.name, request.plugin_path);
  if (request.json) {
    nlohmann::ordered_json object = describe(facts);
    object["parameters"] = nlohmann::ordered_json::array();
    for (const ir::ParameterInfo& parameter : facts.parameters)
      object["parameters"].push_back(parameter_json(parameter));
    print_json(object);
    return;
  }
  print("{} {}: {}\n{}\nSHA-256 {}\n\n", facts.name, facts.version, facts.doc, facts.path, facts.sha256);
  for (const ir::ParameterInfo& parameter : facts.parameters) print_parameter(parameter);
  // Its values are texts of a language of their own.
  if (facts.name == "formula") write_stdout('\n' + topic_page(facts.name));
}

}  // namespace

Command plugins_command() {
  return make_command<PluginsRequest>("plugins", "list the residual strategies that are found", declare_list,
                                      list);
}

Command plugins_info_command() {
  return make_command<PluginsRequest>("plugins info", "print a strategy's parameters", declare_info, info);
}

}  // namespace rewire::cli
