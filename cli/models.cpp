// rewire models: the zoo, and what each model costs in weights and multiply-adds, with plugins if any are
// asked for.
#include "models/model.h"

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/network.h"
#include "cli/streams.h"
#include "ir/ops/flops.h"

namespace rewire::cli {
namespace {

struct Request {
  std::vector<std::string> plugins, plugin_path;
  bool json = false;
};

void declare(Request& request, Options& options) {
  options.list("--plugin", request.plugins, "NAME:key=value,...: counts what it adds too; repeatable");
  declare_plugin_path(request.plugin_path, options);
  options.flag("--json", request.json, "print a list of objects");
}

struct Row {
  models::ModelOptions model;
  std::int64_t parameters = 0;
  double gmacs = 0;  // of one image
};

Row row_of(const Request& request, const std::string& name) {
  const ir::Module module = rewritten_module(resolve({name, {}, request.plugins, request.plugin_path}), 1);
  Row row{models::zoo(name), 0, ir::multiply_adds(module.function("forward")) * 1e-9};
  for (const ir::Parameter& parameter : module.parameters)
    row.parameters += parameter.trainable ? parameter.type.elements() : 0;
  return row;
}

void print_list(const std::vector<Row>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [model, parameters, gmacs] : rows) {
    list.push_back({{"name", model.name},
                    {"image", model.image},
                    {"channels", model.channels},
                    {"dim", model.dim},
                    {"depth", model.depth},
                    {"heads", model.heads},
                    {"patch", model.patch},
                    {"classes", model.classes},
                    {"parameters", parameters},
                    {"gmacs", gmacs}});
  }
  print_json(list);
}

void print_table(const std::vector<Row>& rows) {
  print("{:<12} {:>10} {:>5} {:>6} {:>5} {:>6} {:>8} {:>12} {:>8}\n", "name", "image", "dim", "depth",
        "heads", "patch", "classes", "parameters", "GMACs");
  for (const auto& [model, parameters, gmacs] : rows) {
    print("{:<12} {:>10} {:>5} {:>6} {:>5} {:>6} {:>8} {:>12} {:>8.3f}\n", model.name,
          fmt::format("{}x{}x{}", model.image, model.image, model.channels), model.dim, model.depth,
          model.heads, model.patch, model.classes, parameters, gmacs);
  }
}

void run(const Request& request) {
  std::vector<Row> rows;  // all of them before the first is printed: a plugin may refuse a later one
  for (const std::string& name : models::zoo_names()) rows.push_back(row_of(request, name));
  request.json ? print_list(rows) : print_table(rows);
}

}  // namespace

Command models_command() {
  return make_command<Request>("models", "the models that have a name", declare, run);
}

}  // namespace rewire::cli
