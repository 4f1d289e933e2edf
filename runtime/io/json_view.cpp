#include "runtime/io/json_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "ir/error.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

using Json = nlohmann::ordered_json;
using Event = Json::parse_event_t;

std::string_view kind_of(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_string()) return "text";
  if (value.is_boolean()) return "true or false";
  return value.is_null() ? "null" : "a number";
}

}  // namespace

Json parse_json(std::string_view text, const std::string& where) {
  std::vector<std::set<std::string, std::less<>>> keys;  // of the objects around, the innermost last
  const auto check = [&](int depth, Event event, Json& parsed) {
    if ((event == Event::object_start || event == Event::array_start) && depth >= kMostJsonDepth)
      user_error("{} is not valid JSON: it is more than {} levels deep", where, kMostJsonDepth);
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second)
      user_error("{} is not valid JSON: '{}' appears twice in an object", where,
                 printable(parsed.get_ref<const std::string&>()));
    if (event == Event::key && keys.back().size() > kMostJsonKeys)
      user_error("{} is not a JSON file of Rewire: an object has more than {} keys", where, kMostJsonKeys);
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), check);
  } catch (const Json::exception& error) {
    user_error("{} is not valid JSON: {}", where, printable(error.what()));
  }
}

Json parse_json(std::span<const std::byte> text, const std::string& where) {
  return parse_json(std::string_view(reinterpret_cast<const char*>(text.data()), text.size()), where);
}

std::vector<std::pair<std::string, std::int64_t>> parse_json_counts(std::string_view text,
                                                                    const std::string& where) {
  std::vector<std::pair<std::string, std::int64_t>> counts;
  std::set<std::string, std::less<>> keys;
  const auto check = [&](int depth, Event event, Json& parsed) {
    if (event == Event::object_start && depth == 0) return true;
    if (event == Event::object_end) return true;
    if (event == Event::key && !keys.insert(parsed.get<std::string>()).second)
      user_error("{} is not valid JSON: '{}' appears twice in an object", where,
                 printable(parsed.get_ref<const std::string&>()));
    if (event == Event::key) {
      counts.emplace_back(parsed.get<std::string>(), 0);
      return false;  // an ordered object of many keys would take their square
    }
    if (event != Event::value || depth != 1 || !parsed.is_number_unsigned())
      user_error("{} is not an object of whole numbers", where);
    counts.back().second = parsed.get<std::int64_t>();
    return true;
  };
  try {
    if (!Json::parse(text.begin(), text.end(), check).is_object())
      user_error("{} is not an object of whole numbers", where);
  } catch (const Json::exception& error) {
    user_error("{} is not valid JSON: {}", where, printable(error.what()));
  }
  return counts;
}

Json read_json(const FilePlace& file) {
  return parse_json(read_file(file, kMostJsonBytes), file.path());
}

JsonView::JsonView(const Json& value, std::string file) : value_(&value), file_(std::move(file)) {}

JsonView::JsonView(const Json& value, const std::string& file, std::string place)
    : value_(&value), file_(file), place_(std::move(place)) {}

void JsonView::refuse(std::string_view what) const {
  if (place_.empty()) user_error("{} {}", file_, what);
  user_error("{}: {} {}", file_, printable(place_), what);
}

void JsonView::is_no(std::string_view wanted) const {
  refuse(fmt::format("is {}, not {}", kind_of(*value_), wanted));
}

bool JsonView::is_object() const {
  return value_->is_object();
}

const Json& JsonView::object() const {
  if (!is_object()) is_no("an object");
  return *value_;
}

std::optional<JsonView> JsonView::find(std::string_view key) const {
  const auto member = object().find(std::string(key));
  if (member == value_->end()) return std::nullopt;
  return JsonView(*member, file_, fmt::format("{}{}{}", place_, place_.empty() ? "" : ".", key));
}

JsonView JsonView::at(std::string_view key) const {
  std::optional<JsonView> member = find(key);
  if (!member) refuse(fmt::format("has no \"{}\"", key));
  return std::move(*member);
}

void JsonView::only(std::initializer_list<std::string_view> keys) const {
  for (const auto& [key, value] : object().items()) {
    if (std::ranges::find(keys, key) != keys.end()) continue;
    const std::vector<std::string> known(keys.begin(), keys.end());
    refuse(fmt::format("has an unknown \"{}\"{}", printable(key), did_you_mean(key, known)));
  }
}

std::vector<JsonView> JsonView::items() const {
  if (!value_->is_array()) is_no("a list");
  std::vector<JsonView> items;
  for (const Json& item : *value_)
    items.push_back(JsonView(item, file_, fmt::format("{}[{}]", place_, items.size())));
  return items;
}

std::vector<std::pair<std::string, JsonView>> JsonView::members() const {
  std::vector<std::pair<std::string, JsonView>> members;
  for (const auto& [key, value] : object().items())
    members.emplace_back(
        key, JsonView(value, file_, fmt::format("{}{}{}", place_, place_.empty() ? "" : ".", key)));
  return members;
}

const std::string& JsonView::text() const {
  if (!value_->is_string()) is_no("text");
  return value_->get_ref<const std::string&>();
}

double JsonView::number() const {
  if (!value_->is_number()) is_no("a number");
  return value_->get<double>();
}

std::int64_t JsonView::count(std::int64_t most) const {
  if (!value_->is_number()) is_no("a number");
  // A parsed number is unsigned; a document that was made here may have it as a signed number.
  const bool whole =
      value_->is_number_unsigned() || (value_->is_number_integer() && value_->get<std::int64_t>() >= 0);
  const bool fits = whole && value_->get<std::uint64_t>() <= static_cast<std::uint64_t>(most);
  if (!fits) refuse(fmt::format("is {}, not a whole number from 0 to {}", value_->dump(), most));
  return value_->get<std::int64_t>();
}

}  // namespace rewire::runtime
