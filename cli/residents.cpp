// rewire sources, transforms, objectives, optimizers, schedules: each lists its family. `info` of these
// commands, and of `models`, prints the keys of one member.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/parameters.h"
#include "cli/streams.h"
#include "models/model.h"
#include "programs/objective.h"
#include "programs/optimizer.h"
#include "programs/schedule.h"
#include "runtime/data/catalog/sources.h"
#include "runtime/data/vision/transform.h"
#include "runtime/measure/model_cost.h"

namespace rewire::cli {
namespace {

/// The lists that recipes choose from. Each has its command,
/// the section of its keys, and the key that selects.
struct Models {
  static constexpr std::string_view kCommand = "models", kSection = "model";
  static auto rows() { return models::models(); }
  static const auto& find(std::string_view name) { return models::find_model(name); }
  static runtime::ModelCost cost(std::string_view name) {
    return runtime::cost_of(models::build({std::string(name)}, 1));
  }
};
struct Sources {
  static constexpr std::string_view kCommand = "sources", kSection = "data", kKey = "data.format";
  static auto rows() { return runtime::sources(); }
};
struct Transforms {
  static constexpr std::string_view kCommand = "transforms", kSection = "transforms", kKey = "transform";
  static auto rows() { return runtime::transforms(); }
};
struct Objectives {
  static constexpr std::string_view kCommand = "objectives", kSection = "objective", kKey = "objective.name";
  static auto rows() { return programs::objectives(); }
};
struct Optimizers {
  static constexpr std::string_view kCommand = "optimizers", kSection = "optimizer", kKey = "optimizer.name";
  static auto rows() { return programs::optimizers(); }
};
struct Schedules {
  static constexpr std::string_view kCommand = "schedules", kSection = "schedule", kKey = "schedule.name";
  static auto rows() { return programs::schedules(); }
};

template <class List>
struct ListRequest {
  bool json = false;
};
template <class List>
struct InfoRequest {
  std::string name;
  bool json = false;
};

template <class Row>
nlohmann::ordered_json describe(const Row& row) {
  return {{"name", row.name}, {"doc", row.doc}};
}

template <class List>
void list(const ListRequest<List>& request) {
  nlohmann::ordered_json objects = nlohmann::ordered_json::array();
  for (const auto* row : List::rows()) {
    objects.push_back(describe(*row));
    if (!request.json) print("{:<15} {}\n", row->name, row->doc);
  }
  if (request.json) print_json(objects);
}

template <class List>
void info(const InfoRequest<List>& request) {
  const auto& row = [&]() -> const auto& {
    if constexpr (requires { List::find(request.name); }) {
      return List::find(request.name);
    } else {
      return ir::find_row(List::rows(), List::kKey, request.name);
    }
  }();
  nlohmann::ordered_json object = describe(row);
  object["parameters"] = nlohmann::ordered_json::array();
  if (!request.json) print("{}: {}\n", row.name, row.doc);
  if constexpr (requires { List::cost(request.name); }) {
    const runtime::ModelCost cost = List::cost(request.name);
    object["weights"] = cost.parameters;
    object["gmacs"] = cost.gmacs;
    if (!request.json)
      print("{} parameters, {:.3f} GMACs for an input of {}\n", cost.parameters, cost.gmacs, cost.input);
  }
  if (!request.json) print("\n");
  for (const ir::ParameterSpec& parameter : row.schema) {
    object["parameters"].push_back(parameter_json(parameter.info()));
    if (!request.json) print_parameter(parameter.info());
  }
  if (request.json) print_json(object);
  if (!request.json && row.schema.empty()) print("  it has no keys\n");
}

template <class List>
Command list_command(const char* doc) {
  return make_command<ListRequest<List>>(
      std::string(List::kCommand), doc,
      [](ListRequest<List>& request, Options& options) {
        options.flag("--json", request.json, "print a list of objects");
        options.example(fmt::format("rewire {}", List::kCommand), "list their names and docs");
      },
      list<List>);
}

template <class List>
Command info_command() {
  return make_command<InfoRequest<List>>(
      fmt::format("{} info", List::kCommand),
      fmt::format("print the keys of [{}] that one of them has", List::kSection),
      [](InfoRequest<List>& request, Options& options) {
        options
            .text("NAME", request.name, fmt::format("a name that `rewire {}` lists", List::kCommand),
                  Options::Need::required)
            .takes([] { return offers_of(List::rows()); });
        options.flag("--json", request.json, "print an object");
        const std::string name(List::rows().front()->name);
        options.example(fmt::format("rewire {} info {}", List::kCommand, name),
                        fmt::format("print the keys of {} with their defaults", name));
      },
      info<List>);
}

}  // namespace

Command models_info_command() {
  return info_command<Models>();
}

std::vector<Command> resident_commands() {
  return {list_command<Sources>("list the formats that data can have"),
          info_command<Sources>(),
          list_command<Transforms>("list the transforms of images, in the order they apply"),
          info_command<Transforms>(),
          list_command<Objectives>("list what a network can be trained for"),
          info_command<Objectives>(),
          list_command<Optimizers>("list the optimizers"),
          info_command<Optimizers>(),
          list_command<Schedules>("list the schedules of the learning rate"),
          info_command<Schedules>()};
}

}  // namespace rewire::cli
