// rewire sources, transforms, objectives, optimizers, schedules: what there is of each, and what each can be
// told.
#include <fmt/format.h>

#include <array>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/parameters.h"
#include "cli/streams.h"
#include "programs/objective.h"
#include "programs/optimizer.h"
#include "programs/schedule.h"
#include "runtime/data/source.h"
#include "runtime/data/transform.h"

namespace rewire::cli {
namespace {

/// The lists that recipes choose from: the command, the section of their keys, and what selects one.
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
  const auto& row = programs::find_row(List::rows(), List::kKey, request.name);
  nlohmann::ordered_json object = describe(row);
  object["parameters"] = nlohmann::ordered_json::array();
  if (!request.json) print("{}: {}\n\n", row.name, row.doc);
  for (const ir::ParameterSpec& parameter : row.schema) {
    object["parameters"].push_back(to_json(parameter.info()));
    if (!request.json) print_parameter(parameter.info());
  }
  if (request.json) print_json(object);
}

template <class List>
std::array<Command, 2> commands_of(const char* doc) {
  const std::string name(List::kCommand);
  return {make_command<ListRequest<List>>(
              name, doc,
              [](ListRequest<List>& request, Options& options) {
                options.flag("--json", request.json, "print a list of objects");
              },
              list<List>),
          make_command<InfoRequest<List>>(
              name + " info", fmt::format("the keys of [{}] that one of them has", List::kSection),
              [](InfoRequest<List>& request, Options& options) {
                options.text("NAME", request.name, fmt::format("one of `rewire {}`", List::kCommand),
                             Options::Need::required);
                options.flag("--json", request.json, "print an object");
              },
              info<List>)};
}

}  // namespace

std::vector<Command> resident_commands() {
  std::vector<Command> commands;
  for (const auto& pair : {commands_of<Sources>("where images can come from"),
                           commands_of<Transforms>("what can be done to images, in this order"),
                           commands_of<Objectives>("what a network can be trained for"),
                           commands_of<Optimizers>("how weights can move"),
                           commands_of<Schedules>("how the learning rate can go")})
    commands.insert(commands.end(), pair.begin(), pair.end());
  return commands;
}

}  // namespace rewire::cli
