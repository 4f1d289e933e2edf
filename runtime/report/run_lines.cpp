#include "runtime/report/run_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/error.h"
#include "runtime/io/files.h"
#include "runtime/io/json_view.h"

namespace rewire::runtime {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostLinePosition = std::int64_t{1} << 48;  // more than any run has

/// More than any run has: bytes of the file, and metrics in the lines of one kind.
constexpr std::size_t kMostLineBytes = std::size_t{1} << 30, kMostLineNames = 1 << 13;
/// Most nulls: kMostNullsEach per value, plus kMostNulls. A metric that all lines of a kind have needs none.
constexpr std::size_t kMostNullsEach = 8, kMostNulls = 1 << 20;

/// Returns the present name of a metric that earlier builds called otherwise.
std::string_view name_now(std::string_view name) {
  if (name == "images_per_s") return "samples_per_s";
  return name == "images" ? "samples" : name;
}

/// Collects the lines of one kind by column. Nulls fill a column up to its next value, and at the end.
class LineColumns {
 public:
  void append(const JsonView& line) {
    for (const auto& [name, value] : line.members()) {
      if (name == "kind") continue;
      const Json& raw = value.raw();
      if (!raw.is_number() && !raw.is_null()) value.refuse("is neither a number nor null");
      const std::string_view column_name = name_now(name);
      const auto [place, is_new] = places_.try_emplace(std::string(column_name), columns_.size());
      if (is_new && columns_.size() == kMostLineNames)
        user_error("{}: with this line its metrics have {} names; a run has at most {}", line.file(),
                   kMostLineNames + 1, kMostLineNames);
      if (is_new) columns_.push_back({std::string(column_name), {}});
      Json::array_t& column = columns_[place->second].second;
      if (column.size() > lines_) value.refuse("is in the line twice");
      fill(column, line.file());
      column.push_back(raw);
      ++values_;
    }
    ++lines_;
  }

  Json take(const std::string& file) {
    Json object = Json::object();
    for (auto& [name, column] : columns_) {
      fill(column, file);
      object.push_back({name, std::move(column)});
    }
    return object;
  }

 private:
  void fill(Json::array_t& column, const std::string& where) {
    nulls_ += lines_ - column.size();
    if (nulls_ > kMostNulls + kMostNullsEach * values_)
      user_error("{}: {} lines lack {} values of {} metrics, more than a run's lines can", where, lines_,
                 nulls_, columns_.size());
    column.resize(lines_);
  }

  std::map<std::string, std::size_t> places_;
  std::vector<std::pair<std::string, Json::array_t>> columns_;  // in order of first appearance
  std::size_t lines_ = 0, values_ = 0, nulls_ = 0;
};

}  // namespace

Json read_run_lines(const FilePlace& file) {
  constexpr std::string_view kKinds[] = {"train", "eval", "diagnose"};
  LineColumns columns[std::size(kKinds)];
  std::vector<std::byte> bytes;
  if (status_of(file)) bytes = read_file(file, kMostLineBytes);
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::size_t number = 0;
  for (std::size_t end = 0; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1)) {
    const std::string where = fmt::format("{}:{}", file.path(), ++number);
    const Json parsed = parse_json(text.substr(0, end), where);
    const JsonView line(parsed, where);
    const std::string kind = line.at("kind").text();
    const auto* known = std::ranges::find(kKinds, kind);
    if (known == std::end(kKinds)) line.at("kind").refuse("is not one of train, eval, diagnose");
    for (const char* place : {"epoch", "step"}) line.at(place).count(kMostLinePosition);
    columns[known - kKinds].append(line);
  }
  Json kinds = Json::object();
  for (std::size_t i = 0; i < std::size(kKinds); ++i) kinds[kKinds[i]] = columns[i].take(file.path());
  return kinds;
}

}  // namespace rewire::runtime
