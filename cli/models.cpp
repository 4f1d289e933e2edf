// rewire models: lists the zoo, with the weights and multiply-adds of each model and of given plugins.
#include "models/model.h"

#include <fmt/ranges.h>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/network.h"
#include "cli/streams.h"
#include "ir/error.h"
#include "runtime/device/log.h"
#include "runtime/measure/model_cost.h"

namespace rewire::cli {
namespace {

struct ModelsRequest {
  std::vector<std::string> settings, plugins, plugin_path;
  bool json = false;
};

void declare(ModelsRequest& request, Options& options) {
  options.list("--set", request.settings, "model.key=value: set a key of the models that have it; repeatable")
      .takes(Values::setting, {"model"});
  options.list("--plugin", request.plugins, "NAME:key=value,...: also count what it adds; repeatable")
      .takes(Values::plugin);
  declare_plugin_path(request.plugin_path, options);
  options.flag("--json", request.json, "print a list of objects");
  options.example("rewire models", "list names, weights and multiply-adds");
  options.example("rewire models --set model.classes=10", "list them with another head");
}

struct ModelRow {
  const models::Model* model;
  runtime::ModelCost cost;
};

ModelRow row_of(const ModelsRequest& request, const models::Model& model) {
  return {&model,
          runtime::cost_of(runtime::rewritten_module(
              runtime::resolve_network({model.name, request.settings, request.plugins, request.plugin_path}),
              1))};
}

nlohmann::ordered_json to_json(const ir::Attribute& value) {
  return std::visit([](const auto& held) -> nlohmann::ordered_json { return held; }, value);
}

void print_list(const std::vector<ModelRow>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ModelRow& row : rows) {
    nlohmann::ordered_json& object = list.emplace_back();
    object["name"] = row.model->name;
    object["family"] = row.model->family->name;
    for (const ir::ParameterSpec& parameter : row.model->schema)
      object[parameter.name] = to_json(parameter.default_value);
    object["parameters"] = row.cost.parameters;
    object["gmacs"] = row.cost.gmacs;
  }
  print_json(list);
}

void print_table(const std::vector<ModelRow>& rows) {
  std::size_t width = 12;
  for (const ModelRow& row : rows) width = std::max(width, row.model->name.size());
  print("{:<{}} {:>11} {:>12} {:>8}   {}\n", "name", width, "input", "parameters", "GMACs", "what it is");
  for (const auto& [model, cost] : rows) {
    std::vector<std::string> values = {std::string(model->family->name)};
    for (const ir::ParameterSpec& parameter : model->schema) {
      if (model->values.has(parameter.name))
        values.push_back(fmt::format("{}={}", parameter.name, parameter.default_text));
    }
    print("{:<{}} {:>11} {:>12} {:>8.3f}   {}\n", model->name, width, cost.input, cost.parameters, cost.gmacs,
          fmt::to_string(fmt::join(values, " ")));
  }
}

void run(const ModelsRequest& request) {
  std::vector<ModelRow> rows;  // complete before the first row is printed
  std::string refused;         // the first refusal: settings and plugins must fit one model, not all
  for (const models::Model* model : models::models()) {
    if (model->values.empty() && !model->family->variants.empty()) continue;
    try {
      rows.push_back(row_of(request, *model));
    } catch (const UserError& error) {
      if (request.plugins.empty() && request.settings.empty()) throw;
      runtime::write_log(runtime::LogLevel::info,
                         fmt::format("{} is left out: {}", model->name, error.what()));
      if (refused.empty()) refused = error.what();
    }
  }
  if (rows.empty()) throw UserError(refused);
  request.json ? print_list(rows) : print_table(rows);
}

}  // namespace

Command models_command() {
  return make_command<ModelsRequest>("models", "list the models of the zoo", declare, run);
}

}  // namespace rewire::cli
