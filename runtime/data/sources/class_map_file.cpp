#include "runtime/data/sources/class_map_file.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>

#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/data/sources/image_files.h"

namespace rewire::runtime {
namespace {

constexpr std::size_t kMostLines = 10'000'000;

/// Of digits alone; a number that is too large for any label is a name.
std::optional<std::int64_t> label_in(std::string_view text) {
  std::int64_t label = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, label);
  if (read.ec != std::errc() || read.ptr != end || label < 0) return std::nullopt;
  return label;
}

struct Line {
  std::int64_t number;
  std::string folder, name;
};

std::vector<Line> read_lines(const std::string& path) {
  std::vector<Line> lines;
  std::map<std::string, std::int64_t> seen;
  std::int64_t number = 0;
  for (const std::string& text : lines_of_file(path, kMostLines)) {
    ++number;
    if (text.empty()) continue;
    const std::size_t tab = text.find('\t');
    if (tab == 0 || tab == std::string::npos || tab + 1 == text.size() ||
        text.find('\t', tab + 1) != std::string::npos) {
      user_error("{} line {}: {} is not a folder, a tab, and the name or label of its class", visible(path),
                 number, printable(text));
    }
    Line line{number, text.substr(0, tab), text.substr(tab + 1)};
    const auto [earlier, is_new] = seen.emplace(line.folder, number);
    if (!is_new) {
      user_error("{} line {}: '{}' has a class by line {}", visible(path), number, printable(line.folder),
                 earlier->second);
    }
    lines.push_back(std::move(line));
  }
  if (lines.empty()) user_error("{}: it has no lines", visible(path));
  return lines;
}

}  // namespace

ClassMap read_class_map(const std::string& path) {
  const std::vector<Line> lines = read_lines(path);
  ClassMap map;
  const bool gives_labels = label_in(lines.front().name).has_value();
  for (const Line& line : lines) {
    const std::optional<std::int64_t> label = label_in(line.name);
    if (label.has_value() != gives_labels) {
      user_error("{} line {}: '{}' is a {}, where line {} has a {}: give all by name, or all by label",
                 visible(path), line.number, printable(line.name), gives_labels ? "name" : "label",
                 lines.front().number, gives_labels ? "label" : "name");
    }
    map.labels[line.folder] = label.value_or(0);
  }
  if (gives_labels) return map;
  std::set<std::string> names;
  for (const Line& line : lines) names.insert(line.name);
  map.classes.assign(names.begin(), names.end());
  for (const Line& line : lines)
    map.labels[line.folder] = std::ranges::lower_bound(map.classes, line.name) - map.classes.begin();
  return map;
}

}  // namespace rewire::runtime
