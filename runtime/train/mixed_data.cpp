#include "runtime/train/mixed_data.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/io/files.h"
#include "runtime/recipe/flat_values.h"
#include "runtime/recipe/toml_text.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/run_folder.h"

namespace rewire::runtime {
namespace {

struct RunData {
  std::string name;
  std::string part;  // of the training data that the recipe takes
  DataIdentity train, test;
};

/// Nothing where no checkpoint tells: the run has none yet, removes it meanwhile, or it is damaged.
std::optional<RunData> data_of(const std::string& path) {
  try {
    const RunFolder folder = RunFolder::open(path);
    const std::vector<std::string> checkpoints = folder.checkpoints();
    if (checkpoints.empty()) return std::nullopt;
    const RunProgress progress = read_progress(checkpoints.back());
    const std::vector<std::byte> recipe = read_file(folder.place("recipe.toml"), kLargestToml);
    const std::string_view text(reinterpret_cast<const char*>(recipe.data()), recipe.size());
    RunData data{visible(RunFolder::name_of(path)), "", progress.data, progress.test_data};
    for (const auto& [key, value] : flat_values(text, folder.file("recipe.toml"))) {
      if (key == "data.train_fraction" || key == "data.train_list") data.part += flat_text(value) + "\n";
    }
    return data;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

/// Runs that are not as the first of their part.
class Others {
 public:
  void add(const std::string& part, const std::string& name, const DataIdentity& data) {
    const auto [first, is_new] = firsts_.try_emplace(part, name, data);
    if (is_new || first->second.second == data) return;
    if (count_++ > 0) return;
    than_ = first->second.first;
    what_ = fmt::format("{} ({})", name, difference(first->second.second, data, "there", "here"));
  }

  /// "" where there are none.
  std::string text(std::string_view verb) const {
    if (count_ == 0) return "";
    const std::string more = count_ > 1 ? fmt::format(" and {} more", count_ - 1) : "";
    return fmt::format("{} other data than {}: {}{}", verb, than_, what_, more);
  }

 private:
  std::map<std::string, std::pair<std::string, DataIdentity>> firsts_;  // by part
  std::string than_, what_;
  int count_ = 0;
};

}  // namespace

std::vector<std::string> mixed_data(const std::vector<std::string>& folders) {
  Others trained, evaluated;
  for (const std::string& folder : folders) {
    const std::optional<RunData> data = data_of(folder);
    if (!data) continue;
    trained.add(data->part, data->name, data->train);
    evaluated.add("", data->name, data->test);
  }
  std::vector<std::string> lines;
  for (const std::string& line : {trained.text("trained on"), evaluated.text("evaluated on")}) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

}  // namespace rewire::runtime
