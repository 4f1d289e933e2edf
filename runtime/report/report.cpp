#include "runtime/report/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <boost/archive/iterators/base64_from_binary.hpp>
#include <boost/archive/iterators/transform_width.hpp>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "ir/error.h"
#include "programs/objective.h"
#include "runtime/io/files.h"
#include "runtime/io/json_view.h"
#include "runtime/measure/statistic.h"
#include "runtime/page/page.h"
#include "runtime/recipe/flat_values.h"
#include "runtime/recipe/toml_text.h"
#include "runtime/report/run_lines.h"
#include "runtime/run/mixed_data.h"
#include "runtime/run/run_folder.h"

namespace rewire::runtime {
namespace {

using Json = nlohmann::ordered_json;
/// A recipe's values by key, as text: {"train.batch": "64", "plugin.gain.factor": "0.5"}.
using Settings = std::map<std::string, std::string>;
/// By key: its value in each run, nullopt if the run does not have the key.
using Differences = std::map<std::string, std::vector<std::optional<std::string>>>;

struct ReportedRun {
  std::string name, path, recipe;
  Settings settings;
  std::vector<std::string> plugins;
  Json lines;
};

std::vector<std::string> plugins_of(const toml::table& recipe) {
  std::vector<std::string> names;
  if (const toml::array* list = recipe["plugin"].as_array()) {
    for (const toml::node& plugin : *list) {
      if (const toml::table* table = plugin.as_table())
        names.push_back((*table)["name"].value_or(std::string("?")));
    }
  }
  return names;
}

ReportedRun read_run(const std::string& path) {
  const RunFolder folder = RunFolder::open(path);
  ReportedRun run;
  run.path = path;
  run.name = RunFolder::name_of(path);
  const std::vector<std::byte> bytes = read_file(folder.place("recipe.toml"), kLargestToml);
  run.recipe.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const toml::table recipe = parse_toml(run.recipe, folder.file("recipe.toml"));
  for (const auto& [key, value] : flat_values(run.recipe, folder.file("recipe.toml")))
    run.settings[key] = flat_text(value);
  run.plugins = plugins_of(recipe);
  run.lines = read_run_lines(folder.place("metrics.jsonl"));
  return run;
}

std::string setting(const ReportedRun& run, const std::string& key, const std::string& otherwise = "") {
  const auto found = run.settings.find(key);
  return found == run.settings.end() ? otherwise : found->second;
}

Json whole_number(const std::string& text) {
  try {
    return std::stoll(text);
  } catch (const std::exception&) {
    return {};
  }
}

/// Returns true if all epochs have the same number of steps. Batches may change inside a run.
bool is_even(const Json& eval) {
  const std::int64_t first = eval["step"][0], epochs = eval["epoch"][0].get<std::int64_t>() + 1;
  for (std::size_t i = 1; i < eval["step"].size(); ++i) {
    const std::int64_t done = eval["epoch"][i].get<std::int64_t>() + 1;
    if (i + 1 < eval["step"].size() && eval["step"][i].get<std::int64_t>() * epochs != first * done)
      return false;
  }
  return true;
}

/// Returns the steps of an epoch, from the first evaluation or the last training line of the first epoch.
Json steps_per_epoch(const Json& lines) {
  const Json& eval = lines["eval"];
  if (eval.contains("step") && !eval["step"].empty()) {
    if (!is_even(eval)) return {};
    const std::int64_t step = eval["step"][0], epochs = eval["epoch"][0].get<std::int64_t>() + 1;
    if (step > 0 && step % epochs == 0) return step / epochs;
  }
  const Json& train = lines["train"];
  if (!train.contains("epoch")) return {};
  for (std::size_t i = 1; i < train["epoch"].size(); ++i) {
    if (train["epoch"][i - 1] == 0 && train["epoch"][i] == 1) return train["step"][i - 1];
  }
  return {};
}

std::string data_uri(const FilePlace& file) {
  using Bits = boost::archive::iterators::transform_width<const char*, 6, 8>;
  using Base64 = boost::archive::iterators::base64_from_binary<Bits>;
  const std::vector<std::byte> bytes = read_file(file, std::size_t{1} << 24);
  const char* begin = reinterpret_cast<const char*>(bytes.data());
  std::string text(Base64(begin), Base64(begin + bytes.size()));
  text.append((3 - bytes.size() % 3) % 3, '=');
  return "data:image/png;base64," + text;
}

/// Returns the first, the middle and the last of the pictures (RUN/pictures/epoch-0005.png).
Json pictures_of(const std::string& folder) {
  std::map<std::int64_t, FilePlace> files;
  for (const std::string& name : names_in(FilePlace::below(folder, "pictures"))) {
    if (!name.starts_with("epoch-") || !name.ends_with(".png")) continue;
    const Json epoch = whole_number(name.substr(6));
    if (epoch.is_number())
      files.emplace(epoch.get<std::int64_t>(), FilePlace::below(folder, "pictures/" + name));
  }
  Json pictures = Json::array();
  std::size_t i = 0;
  for (const auto& [epoch, file] : files) {
    const bool taken = i == 0 || i == files.size() / 2 || i + 1 == files.size();
    if (taken) pictures.push_back({{"epoch", epoch}, {"png", data_uri(file)}});
    ++i;
  }
  return pictures;
}

Json environment_of(const std::string& folder) {
  Json facts = Json::object();
  const FilePlace file = FilePlace::below(folder, "choices.json");
  if (!status_of(file)) return facts;
  const Json json = read_json(file);
  for (const auto& [key, value] : json.items()) {
    if (value.is_string()) facts[key] = value;
    if (!value.is_object()) continue;
    for (const auto& [name, inner] : value.items()) {
      if (inner.is_string()) facts[key + "." + name] = inner;
    }
  }
  return facts;
}

Json metrics_json(const std::vector<ReportedRun>& runs) {
  Json metrics = {{"loss", "lower"}};
  for (const ReportedRun& run : runs) {
    for (const programs::ObjectiveRow* row : programs::objectives()) {
      if (row->name != setting(run, "objective.name", "supervised")) continue;
      for (const programs::MetricInfo& info : row->metrics) {
        const char* better = info.better == programs::Better::lower ? "lower" : "higher";
        metrics[info.name] = better;
        metrics[std::string(programs::kOfAverages) + info.name] = better;
      }
    }
  }
  return metrics;
}

/// Returns the keys that differ between runs, with the runs' values.
Differences differences_of(const std::vector<ReportedRun>& runs) {
  std::set<std::string> keys;
  for (const ReportedRun& run : runs) {
    for (const auto& [key, value] : run.settings) {
      if (!key.starts_with("plugin.") || !key.ends_with(".name")) keys.insert(key);  // the key contains it
    }
  }
  Differences differences;
  for (const std::string& key : keys) {
    std::vector<std::optional<std::string>> values;
    for (const ReportedRun& run : runs) {
      const auto found = run.settings.find(key);
      values.push_back(found == run.settings.end() ? std::nullopt : std::optional(found->second));
    }
    if (std::ranges::adjacent_find(values, std::ranges::not_equal_to()) != values.end())
      differences.emplace(key, std::move(values));
  }
  return differences;
}

/// Returns the plugins if they differ between runs, then other values that differ:
/// "gain, optimizer.lr=0.003".
std::string group_label(const std::vector<ReportedRun>& runs, std::size_t run,
                        const Differences& differences) {
  const bool plugins_differ =
      std::ranges::any_of(runs, [&](const ReportedRun& other) { return other.plugins != runs[run].plugins; });
  const std::string names =
      runs[run].plugins.empty() ? "none" : fmt::format("{}", fmt::join(runs[run].plugins, " + "));
  std::vector<std::string> parts;
  if (plugins_differ || differences.empty()) parts.push_back(names);
  for (const auto& [key, values] : differences) {
    // A parameter that some runs lack belongs to a plugin or model: its name identifies the run already.
    const bool lacked = std::ranges::any_of(values, [](const auto& value) { return !value; });
    if (key == "seed" || (lacked && (key.starts_with("plugin.") || key.starts_with("model.")))) continue;
    parts.push_back(fmt::format("{}={}", key, values[run].value_or("-")));
  }
  return parts.empty() ? names : fmt::format("{}", fmt::join(parts, ", "));
}

Json groups_json(const std::vector<ReportedRun>& runs, const Differences& differences) {
  Json groups = Json::array();
  std::vector<Settings> known;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Settings settings = runs[i].settings;
    settings.erase("seed");
    const auto found = std::ranges::find(known, settings);
    if (found != known.end()) {
      groups[static_cast<std::size_t>(found - known.begin())]["runs"].push_back(i);
      continue;
    }
    known.push_back(std::move(settings));
    groups.push_back({{"label", group_label(runs, i, differences)}, {"runs", Json::array({i})}});
  }
  return groups;
}

/// Returns Student's factors for 2, 3, … pairs of runs, up to the number of runs in the largest group.
Json student_factors(const Json& groups) {
  std::size_t most = 0;
  for (const Json& group : groups) most = std::max(most, group.at("runs").size());
  Json factors = Json::array();
  for (std::size_t pairs = 2; pairs <= most; ++pairs)
    factors.push_back(student_95(static_cast<std::int64_t>(pairs) - 1));
  return factors;
}

Json run_json(const ReportedRun& run) {
  Json json = {{"name", run.name},
               {"path", run.path},
               {"seed", whole_number(setting(run, "seed", "0"))},
               {"model", setting(run, "model.name")},
               {"plugins", run.plugins}};
  json["epochs"] = whole_number(setting(run, "train.epochs"));
  json["steps_per_epoch"] = steps_per_epoch(run.lines);
  json["ended"] = is_file(FilePlace::below(run.path, "weights.safetensors"));
  json["recipe"] = run.recipe;
  for (const auto& [kind, columns] : run.lines.items()) json[kind] = columns;
  json["pictures"] = pictures_of(run.path);
  json["environment"] = environment_of(run.path);
  return json;
}

}  // namespace

Json report_json(const std::vector<std::string>& folders) {
  std::vector<ReportedRun> facts;
  for (const std::string& folder : folders) facts.push_back(read_run(folder));
  const Differences differences = differences_of(facts);
  Json keys = Json::array(), runs = Json::array();
  for (const auto& [key, values] : differences) {
    Json row = Json::array();
    for (const auto& value : values) row.push_back(value ? Json(*value) : Json());
    keys.push_back({{"key", key}, {"values", std::move(row)}});
  }
  for (const ReportedRun& run : facts) runs.push_back(run_json(run));
  Json groups = groups_json(facts, differences);
  Json factors = student_factors(groups);
  return {{"format", 1},
          {"version", REWIRE_VERSION},
          {"metrics", metrics_json(facts)},
          {"groups", std::move(groups)},
          {"student_95", std::move(factors)},
          {"differences", std::move(keys)},
          {"mixed_data", mixed_data(folders)},
          {"runs", std::move(runs)}};
}

std::string report_page(const Json& report) {
  const Json& runs = report.at("runs");
  const std::string title =
      runs.size() == 1 ? runs[0].at("name").get<std::string>() : fmt::format("{} runs", runs.size());
  return make_page(report_files(), title, report);
}

void write_report(const std::vector<std::string>& folders, const FilePlace& file) {
  write_file_atomically(file, report_page(report_json(folders)));
}

}  // namespace rewire::runtime
