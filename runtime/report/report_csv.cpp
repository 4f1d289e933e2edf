#include "runtime/report/report_csv.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "runtime/io/csv.h"

namespace rewire::runtime {
namespace {

using Json = nlohmann::ordered_json;

std::string csv_cell(const Json& value) {
  if (value.is_null()) return "";
  if (!value.is_string()) return value.dump();
  return csv_field(value.get_ref<const std::string&>());
}

/// Returns the label of each run's group, by the number of the run.
std::vector<Json> labels_of_groups(const Json& report) {
  std::vector<Json> labels(report.at("runs").size());
  for (const Json& group : report.at("groups"))
    for (const Json& run : group.at("runs")) labels.at(run.get<std::size_t>()) = group.at("label");
  return labels;
}

void append_row(std::string& table, const std::vector<Json>& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) table += (i == 0 ? "" : ",") + csv_cell(cells[i]);
  table += '\n';
}

std::string csv_of_kind(const Json& report, const char* kind) {
  std::vector<std::string> columns;
  for (const Json& run : report.at("runs")) {
    for (const auto& [name, values] : run.at(kind).items())
      if (std::ranges::find(columns, name) == columns.end()) columns.push_back(name);
  }
  if (columns.empty()) return "";
  std::vector<Json> row = {"run", "group", "seed"};
  row.insert(row.end(), columns.begin(), columns.end());
  std::string table;
  append_row(table, row);
  const std::vector<Json> labels = labels_of_groups(report);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const Json& run = report.at("runs")[i];
    const Json& lines = run.at(kind);
    for (std::size_t line = 0; lines.contains("step") && line < lines.at("step").size(); ++line) {
      row = {run.at("name"), labels[i], run.at("seed")};
      for (const std::string& name : columns)
        row.push_back(lines.contains(name) ? lines.at(name)[line] : Json());
      append_row(table, row);
    }
  }
  return table;
}

}  // namespace

std::map<std::string, std::string> report_csv(const Json& report) {
  std::map<std::string, std::string> tables;
  for (const char* kind : {"train", "eval", "diagnose"}) {
    std::string table = csv_of_kind(report, kind);
    if (!table.empty()) tables.emplace(std::string(kind) + ".csv", std::move(table));
  }
  return tables;
}

}  // namespace rewire::runtime
