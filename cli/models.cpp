// rewire models: the zoo, and how many weights each model has, with plugins if any are asked for.
#include "models/model.h"

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/network.h"

namespace rewire::cli {
namespace {

struct Request {
  std::vector<std::string> plugins, plugin_path;
  bool json = false;
};

void declare(Request& request, Options& options) {
  options.list("--plugin", request.plugins, "NAME:key=value,...: counts its weights too; repeatable");
  declare_plugin_path(request.plugin_path, options);
  options.flag("--json", request.json, "print a list of objects");
}

std::int64_t weight_count(const Request& request, const std::string& name) {
  const ir::Module module = rewritten_module(resolve({name, {}, request.plugins, request.plugin_path}), 1);
  std::int64_t count = 0;
  for (const ir::Parameter& parameter : module.parameters)
    count += parameter.trainable ? parameter.type.elements() : 0;
  return count;
}

void run(const Request& request) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  if (!request.json) {
    fmt::print("{:<12} {:>10} {:>5} {:>6} {:>5} {:>6} {:>8} {:>12}\n", "name", "image", "dim", "depth",
               "heads", "patch", "classes", "parameters");
  }
  for (const std::string& name : models::zoo_names()) {
    const models::ModelOptions model = models::zoo(name);
    const std::int64_t count = weight_count(request, name);
    if (request.json) {
      list.push_back({{"name", name},
                      {"image", model.image},
                      {"channels", model.channels},
                      {"dim", model.dim},
                      {"depth", model.depth},
                      {"heads", model.heads},
                      {"patch", model.patch},
                      {"classes", model.classes},
                      {"parameters", count}});
    } else {
      fmt::print("{:<12} {:>10} {:>5} {:>6} {:>5} {:>6} {:>8} {:>12}\n", name,
                 fmt::format("{}x{}x{}", model.image, model.image, model.channels), model.dim, model.depth,
                 model.heads, model.patch, model.classes, count);
    }
  }
  if (request.json) print_json(list);
}

}  // namespace

Command models_command() {
  return make_command<Request>("models", "the models that have a name", declare, run);
}

}  // namespace rewire::cli
