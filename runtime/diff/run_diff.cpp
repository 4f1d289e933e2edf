#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/diff/diff_rows.h"
#include "runtime/diff/network_diff.h"
#include "runtime/plugin/kept_plugins.h"
#include "runtime/report/report.h"
#include "runtime/run/run_folder.h"

namespace rewire::runtime {
namespace {

using Json = nlohmann::ordered_json;

/// Returns true for metrics from a clock, which are never the same twice.
bool is_of_clock(const std::string& metric) {
  return metric == "samples_per_s" || metric == "seconds";
}

bool is_position(const std::string& column) {
  return column == "epoch" || column == "step";
}

/// A column of a run's lines by position; null where a line lacks the value.
using Curve = std::map<std::pair<std::int64_t, std::int64_t>, Json>;

Curve curve_of(const Json& lines, const std::string& name) {
  Curve curve;
  if (!lines.contains(name)) return curve;
  const Json& column = lines[name];
  for (std::size_t i = 0; i < column.size(); ++i)
    curve[{lines["step"][i].get<std::int64_t>(), lines["epoch"][i].get<std::int64_t>()}] = column[i];
  return curve;
}

Json best_of(const Curve& curve, const std::string& better) {
  Json best;
  for (const auto& [at, value] : curve) {
    if (value.is_null() || better.empty()) continue;
    const bool improves = best.is_null() || (better == "lower" ? value < best : value > best);
    if (improves) best = value;
  }
  return best;
}

/// Returns the first position that both have and at which they differ.
Json parting_of(const Curve& a, const Curve& b) {
  for (const auto& [at, value] : a) {
    const auto found = b.find(at);
    if (found == b.end() || found->second == value) continue;
    return {{"step", at.first}, {"epoch", at.second}, {"a", value}, {"b", found->second}};
  }
  return {};
}

Json metric_row(const std::string& kind, const std::string& name, const std::string& better, const Curve& a,
                const Curve& b) {
  const auto last = [](const Curve& curve) { return curve.empty() ? Json() : curve.rbegin()->second; };
  return {{"kind", kind},
          {"name", name},
          {"better", better},
          {"lines", Json::array({a.size(), b.size()})},
          {"final", Json::array({last(a), last(b)})},
          {"best", Json::array({best_of(a, better), best_of(b, better)})},
          {"part", parting_of(a, b)}};
}

Json metric_rows(const Json& report, std::string_view wanted_kind, bool of_clock) {
  const Json &a = report["runs"][0], &b = report["runs"][1];
  Json rows = Json::array();
  const std::string kind(wanted_kind);
  std::map<std::string, bool> names;
  for (const Json* run : {&a, &b}) {
    for (const auto& [name, column] : (*run)[kind].items()) names[name] = true;
  }
  for (const auto& [name, known] : names) {
    if (is_position(name) || is_of_clock(name) != of_clock) continue;
    const std::string better =
        report["metrics"].value(name, of_clock && name == "samples_per_s" ? "higher" : "");
    rows.push_back(metric_row(kind, name, better, curve_of(a[kind], name), curve_of(b[kind], name)));
  }
  return rows;
}

std::map<std::string, std::string> text_facts(const Json& object) {
  std::map<std::string, std::string> facts;
  for (const auto& [key, value] : object.items()) facts[key] = value.get<std::string>();
  return facts;
}

std::map<std::string, std::string> choices_taken(const RunFolder& folder) {
  std::map<std::string, std::string> taken;
  const ChoiceRecord record = recorded_choices(folder);
  for (const MadeChoice& choice : record.made()) taken[choice.key] = choice.taken;
  return taken;
}

std::map<std::string, std::string> builds_in(const RunFolder& folder) {
  std::map<std::string, std::string> builds;
  for (const RecordedPlugin& plugin : recorded_plugins(folder.path()))
    builds[plugin.build.name] = fmt::format("{}, SHA-256 {}", plugin.build.version, plugin.build.sha256);
  return builds;
}

/// Returns "plugin.gain" for "plugin.gain.factor" if one side does not have the plugin: its values form one row. A
/// plugin may be a path with dots; the names of values have none.
std::string absent_plugin(const Json& row) {
  const std::string key = row["key"];
  constexpr std::string_view kPlugin = "plugin.";
  const bool absent = row["values"][0].is_null() || row["values"][1].is_null();
  return key.starts_with(kPlugin) && absent ? key.substr(0, key.rfind('.')) : "";
}

Json recipe_rows(const Json& differences) {
  Json rows = Json::array();
  for (const Json& row : differences) {
    const std::string plugin = absent_plugin(row);
    if (plugin.empty()) {
      rows.push_back({{"key", row["key"]}, {"a", row["values"][0]}, {"b", row["values"][1]}});
      continue;
    }
    if (rows.empty() || rows.back()["key"] != plugin)
      rows.push_back({{"key", plugin}, {"a", nullptr}, {"b", nullptr}});
    const std::string name = row["key"].get<std::string>().substr(plugin.size() + 1);
    for (const auto& [side, at] : {std::pair("a", 0), std::pair("b", 1)}) {
      const Json& value = row["values"][static_cast<std::size_t>(at)];
      if (value.is_null()) continue;
      Json& text = rows.back()[side];
      const std::string before = text.is_null() ? "" : text.get<std::string>() + ", ";
      text = before + name + "=" + value.get<std::string>();
    }
  }
  return rows;
}

bool is_same_metric(const Json& row) {
  return row["part"].is_null() && row["lines"][0] == row["lines"][1];
}

}  // namespace

Json run_diff(const DiffNames& folders) {
  const Json report = report_json({folders.a, folders.b});
  const RunFolder a = RunFolder::open(folders.a), b = RunFolder::open(folders.b);
  Json diff = {{"format", 1}, {"kind", "runs"}, {"a", folders.a}, {"b", folders.b}, {"same", false}};
  diff["recipe"] = recipe_rows(report["differences"]);
  diff["plugins"] = different_rows(builds_in(a), builds_in(b));
  diff["environment"] = different_rows(text_facts(report["runs"][0]["environment"]),
                                       text_facts(report["runs"][1]["environment"]));
  diff["choices"] = different_rows(choices_taken(a), choices_taken(b));
  diff["metrics"] = Json::array();
  diff["speed"] = Json::array();
  for (const char* kind : {"train", "eval", "diagnose"}) {
    for (Json& row : metric_rows(report, kind, false)) diff["metrics"].push_back(std::move(row));
    for (Json& row : metric_rows(report, kind, true)) diff["speed"].push_back(std::move(row));
  }
  diff["same"] = diff["recipe"].empty() && diff["plugins"].empty() && diff["environment"].empty() &&
                 diff["choices"].empty() && std::ranges::all_of(diff["metrics"], is_same_metric);
  return diff;
}

}  // namespace rewire::runtime
