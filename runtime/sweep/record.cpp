#include "runtime/sweep/record.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "ir/error.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<const char*, 3> kStatus = {"begun", "finished", "failed"};

/// The numbers of a finished run, under the names that `rewire train --json` prints.
template <class Record, class Visit>
void for_each_number(Record& record, Visit visit) {
  visit("top1", record.top1);
  visit("top5", record.top5);
  visit("test_loss", record.test_loss);
  visit("train_loss", record.train_loss);
  visit("images_per_s", record.images_per_s);
  visit("train_seconds", record.train_seconds);
  visit("peak_mb", record.peak_mb);
}

std::vector<PluginBuild> read_plugins(const Json& list) {
  std::vector<PluginBuild> plugins;
  for (const Json& plugin : list) {
    plugins.push_back({plugin.at("name").get<std::string>(), plugin.at("version").get<std::string>(),
                       plugin.at("sha256").get<std::string>()});
  }
  return plugins;
}

Json to_json(const std::vector<PluginBuild>& plugins) {
  Json list = Json::array();
  for (const PluginBuild& plugin : plugins)
    list.push_back({{"name", plugin.name}, {"version", plugin.version}, {"sha256", plugin.sha256}});
  return list;
}

void read_numbers(RunRecord& record, const Json& json) {
  for_each_number(record, [&](const char* name, double& number) { number = json.at(name).get<double>(); });
}

}  // namespace

std::optional<RunRecord> read_record(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  const std::vector<std::byte> bytes = read_file(path);
  try {
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    const Json json = Json::parse(text, text + bytes.size());
    RunRecord record;
    record.recipe = json.at("recipe").get<std::string>();
    if (json.contains("plugins")) record.plugins = read_plugins(json.at("plugins"));
    const auto status = json.at("status").get<std::string>();
    const auto known = std::ranges::find(kStatus, std::string_view(status));
    if (known == kStatus.end()) user_error("its status is '{}'", printable(status));
    record.status = static_cast<RunRecord::Status>(known - kStatus.begin());
    record.wall_seconds = json.at("wall_seconds").get<double>();
    if (record.status == RunRecord::Status::failed) record.error = json.at("error").get<std::string>();
    if (record.status == RunRecord::Status::finished) read_numbers(record, json);
    return record;
  } catch (const std::exception& fault) {
    user_error("{} is no record of a run ({}): remove it to train that run again", path,
               printable(fault.what()));
  }
}

void write_record(const std::string& path, const RunRecord& record) {
  Json json = {{"status", kStatus[static_cast<std::size_t>(record.status)]},
               {"wall_seconds", record.wall_seconds}};
  if (record.status == RunRecord::Status::failed) json["error"] = record.error;
  if (record.status == RunRecord::Status::finished)
    for_each_number(record, [&](const char* name, double number) { json[name] = number; });
  if (record.plugins) json["plugins"] = to_json(*record.plugins);
  json["recipe"] = record.recipe;
  write_file_atomically(path, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

void read_train_output(RunRecord& record, const std::string& text) {
  try {
    read_numbers(record, Json::parse(text));
  } catch (const std::exception&) {
    user_error("the run ended well and printed no result: '{}'", printable(text));
  }
}

}  // namespace rewire::runtime
