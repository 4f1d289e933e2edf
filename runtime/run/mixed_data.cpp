#include "runtime/run/mixed_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/io/files.h"
#include "runtime/recipe/flat_values.h"
#include "runtime/recipe/toml_text.h"
#include "runtime/run/checkpoint.h"
#include "runtime/run/run_folder.h"

namespace rewire::runtime {
namespace {

struct RunData {
  std::string name;
  std::string part;  // of the training data that the recipe takes
  DataIdentity train, test;
  std::string competing;  // classes, in evaluation
};

/// Returns what the newest sound checkpoint records; nullopt if there is none.
std::optional<RunData> data_of(const std::string& path) {
  const RunFolder folder = RunFolder::open(path);
  const std::vector<std::string> checkpoints = folder.checkpoints();
  for (auto checkpoint = checkpoints.rbegin(); checkpoint != checkpoints.rend(); ++checkpoint) {
    try {
      const RunProgress progress = read_progress(*checkpoint);
      const std::vector<std::byte> recipe = read_file(folder.place("recipe.toml"), kLargestToml);
      const std::string_view text(reinterpret_cast<const char*>(recipe.data()), recipe.size());
      RunData data{visible(RunFolder::name_of(path)), "", progress.data, progress.test_data,
                   progress.competing};
      for (const auto& [key, value] : flat_values(text, folder.file("recipe.toml"))) {
        if (key == "data.train_fraction" || key == "data.train_list") data.part += flat_text(value) + "\n";
      }
      return data;
    } catch (const UserError&) {
      continue;  // damaged, or removed by the run meanwhile
    }
  }
  return std::nullopt;
}

/// "a, b and 3 more"
std::string first_of(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 5;
  const std::size_t count = std::min(names.size(), kMost);
  std::string text =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(count), ", "));
  if (names.size() > count) text += fmt::format(" and {} more", names.size() - count);
  return text;
}

/// Runs that should have the same data, and those among them whose data differ from the first's.
struct RunsOfData {
  std::string first;
  DataIdentity data;
  std::vector<std::string> others = {};
  std::string difference = {};  // of the first other one

  void add(const std::string& name, const DataIdentity& other) {
    if (other == data) return;
    if (others.empty()) difference = runtime::difference(data, other, "there", "here");
    others.push_back(name);
  }
  void say(std::string_view verb, std::vector<std::string>& lines) const {
    if (!others.empty())
      lines.push_back(
          fmt::format("{} other data than {}: {} ({})", verb, first, first_of(others), difference));
  }
};

}  // namespace

std::vector<std::string> mixed_data(const std::vector<std::string>& folders) {
  std::vector<std::string> lines, silent, competing;
  if (folders.size() < 2) return lines;
  std::map<std::string, RunsOfData> trained;
  std::optional<RunsOfData> evaluated;
  std::optional<RunData> first;
  for (const std::string& folder : folders) {
    const std::optional<RunData> data = data_of(folder);
    if (!data) {
      silent.push_back(visible(RunFolder::name_of(folder)));
      continue;
    }
    if (!first) first = data;
    trained.try_emplace(data->part, RunsOfData{data->name, data->train})
        .first->second.add(data->name, data->train);
    if (!evaluated) evaluated = RunsOfData{data->name, data->test};
    evaluated->add(data->name, data->test);
    if (data->competing != first->competing) competing.push_back(data->name);
  }
  for (const auto& [part, group] : trained) group.say("trained on", lines);
  if (evaluated) evaluated->say("evaluated on", lines);
  if (!competing.empty()) {
    lines.push_back(fmt::format("evaluated with other classes than {}: {} (eval.classes)", first->name,
                                first_of(competing)));
  }
  if (!silent.empty())
    lines.push_back(
        fmt::format("no intact checkpoint records which data they have seen: {}", first_of(silent)));
  return lines;
}

}  // namespace rewire::runtime
