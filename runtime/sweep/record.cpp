#include "runtime/sweep/record.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "ir/error.h"
#include "runtime/io/files.h"
#include "runtime/io/json_view.h"

namespace rewire::runtime {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<const char*, 3> kStatus = {"begun", "finished", "failed"};

/// Entries of a run's JSON and of a record that are not metrics.
constexpr std::array<std::string_view, 10> kOthers = {"run",
                                                      "complete",
                                                      "steps",
                                                      "status",
                                                      "recipe",
                                                      "wall_seconds",
                                                      "error",
                                                      "plugins",
                                                      "data_wait_seconds",
                                                      "unreadable_samples"};

/// The numbers of every finished run, under the names that `rewire train --json` prints.
template <class Record, class Visit>
void for_each_number(Record& record, Visit visit) {
  visit("test_loss", record.test_loss);
  visit("train_loss", record.train_loss);
  visit("samples_per_s", record.samples_per_s);
  visit("train_seconds", record.train_seconds);
  visit("peak_mb", record.peak_mb);
}

/// `nulls`: a metric may be null, as a mean over nothing is; it is left out.
void read_numbers(RunRecord& record, const JsonView& view, bool nulls) {
  std::set<std::string_view> others(kOthers.begin(), kOthers.end());
  for_each_number(record, [&](const char* name, double& number) {
    const bool is_older = std::string_view(name) == "samples_per_s" && !view.find(name);
    const char* const written = is_older ? "images_per_s" : name;  // as records of earlier builds call it
    number = view.at(written).number();
    others.insert(written);
  });
  for (const auto& [name, value] : view.members()) {
    if (others.contains(name) || (nulls && value.raw().is_null())) continue;
    record.metrics.push_back({name, value.number()});
  }
}

}  // namespace

std::optional<RunRecord> read_record(const FilePlace& file) {
  if (!status_of(file)) return std::nullopt;
  const std::vector<std::byte> bytes = read_file(file, kMostJsonBytes);
  try {
    const Json json = parse_json(bytes, "it");
    const JsonView view(json, "it");
    RunRecord record;
    record.recipe = view.at("recipe").text();
    if (const auto plugins = view.find("plugins")) record.plugins = builds_from_json(*plugins);
    const std::string status = view.at("status").text();
    const auto known = std::ranges::find(kStatus, std::string_view(status));
    if (known == kStatus.end()) user_error("its status is '{}'", printable(status));
    record.status = static_cast<RunRecord::Status>(known - kStatus.begin());
    record.wall_seconds = view.at("wall_seconds").number();
    if (record.status == RunRecord::Status::failed) record.error = view.at("error").text();
    if (record.status == RunRecord::Status::finished) read_numbers(record, view, false);
    return record;
  } catch (const UserError& fault) {
    user_error("{} is not a record of a run ({}): remove it to train that run again", file.path(),
               printable(fault.what()));
  }
}

void write_record(const FilePlace& file, const RunRecord& record) {
  Json json = {{"status", kStatus[static_cast<std::size_t>(record.status)]},
               {"wall_seconds", record.wall_seconds}};
  if (record.status == RunRecord::Status::failed) json["error"] = record.error;
  if (record.status == RunRecord::Status::finished)
    for (const auto& [name, value] : record.metrics) json[name] = value;
  if (record.status == RunRecord::Status::finished)
    for_each_number(record, [&](const char* name, double number) { json[name] = number; });
  if (record.plugins) json["plugins"] = to_json(*record.plugins);
  json["recipe"] = record.recipe;
  write_file_atomically(file, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

void read_train_output(RunRecord& record, const std::string& text) {
  try {
    const Json json = parse_json(text, "it");
    read_numbers(record, JsonView(json, "it"), true);
  } catch (const UserError&) {
    user_error("the run succeeded but printed no result: '{}'", printable(text));
  }
}

}  // namespace rewire::runtime
