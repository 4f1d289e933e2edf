#include "runtime/data/vision/sources/class_map_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/data/vision/sources/image_files.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

constexpr std::size_t kMostMapLines = 10'000'000;
constexpr std::int64_t kMostLabel = 999'999;

/// Returns true for digits, with an optional sign before them: no class has such a name.
bool is_whole_number(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Returns nullopt for a name.
std::optional<std::int64_t> label_in(std::string_view text, const std::string& place) {
  if (!is_whole_number(text)) return std::nullopt;
  std::int64_t label = -1;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), label);
  if (read.ec != std::errc() || label < 0 || label > kMostLabel)
    user_error("{}: {} is not a label: it must be from 0 to {}", place, printable(text), kMostLabel);
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
  for (std::string text : lines_of_file(path, kMostMapLines)) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (++number == 1 && text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
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
      user_error("{} line {}: '{}' already has a class from line {}", visible(path), number,
                 printable(line.folder), earlier->second);
    }
    lines.push_back(std::move(line));
  }
  if (lines.empty()) user_error("{}: it has no lines", visible(path));
  return lines;
}

}  // namespace

ClassMap read_class_map(const std::string& path,
                        bool (*is_before)(const std::string& one, const std::string& other)) {
  const std::vector<Line> lines = read_lines(path);
  ClassMap map;
  const bool gives_labels = is_whole_number(lines.front().name);
  for (const Line& line : lines) {
    const std::string place = fmt::format("{} line {}", visible(path), line.number);
    const std::optional<std::int64_t> label = label_in(line.name, place);
    if (label.has_value() != gives_labels) {
      user_error("{}: '{}' is a {}, but line {} has a {}: use only names, or only labels", place,
                 printable(line.name), gives_labels ? "name" : "label", lines.front().number,
                 gives_labels ? "label" : "name");
    }
    map.labels[line.folder] = label.value_or(0);
  }
  if (gives_labels) return map;
  for (const Line& line : lines) map.classes.push_back(line.name);
  std::ranges::sort(map.classes, is_before);
  map.classes.erase(std::unique(map.classes.begin(), map.classes.end()), map.classes.end());
  for (const Line& line : lines) {
    map.labels[line.folder] =
        std::ranges::lower_bound(map.classes, line.name, is_before) - map.classes.begin();
  }
  return map;
}

}  // namespace rewire::runtime
