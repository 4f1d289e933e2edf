#include "runtime/report/run_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "ir/error.h"
#include "runtime/io/files.h"
#include "runtime/io/json_view.h"

namespace rewire::runtime {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostLinePosition = std::int64_t{1} << 48;  // no run has

/// Appends a line's values to the columns; a column that begins late has nulls before it.
void append_line(Json& columns, std::size_t lines, const JsonView& line) {
  for (const auto& [name, value] : line.members()) {
    if (name == "kind") continue;
    const Json& raw = value.raw();
    if (!raw.is_number() && !raw.is_null()) value.refuse("is neither a number nor null");
    Json& column = columns[name];
    if (column.is_null()) column = Json::array();
    while (column.size() < lines) column.push_back(nullptr);
    column.push_back(raw);
  }
  for (auto& [name, column] : columns.items()) {
    if (column.size() <= lines) column.push_back(nullptr);
  }
}

}  // namespace

Json read_run_lines(const FilePlace& file) {
  constexpr std::string_view kKinds[] = {"train", "eval", "diagnose"};
  Json kinds = Json::object();
  for (const std::string_view kind : kKinds) kinds[kind] = Json::object();
  if (!status_of(file)) return kinds;
  const std::vector<std::byte> bytes = read_file(file);
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::size_t number = 0;
  std::map<std::string, std::size_t> lines;
  for (std::size_t end = 0; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1)) {
    const std::string where = fmt::format("{}:{}", file.path(), ++number);
    const Json parsed = parse_json(text.substr(0, end), where);
    const JsonView line(parsed, where);
    const std::string& kind = line.at("kind").text();
    if (std::ranges::find(kKinds, kind) == std::end(kKinds))
      line.at("kind").refuse("is none of train, eval, diagnose");
    for (const char* place : {"epoch", "step"}) line.at(place).count(kMostLinePosition);
    append_line(kinds[kind], lines[kind]++, line);
  }
  return kinds;
}

}  // namespace rewire::runtime
