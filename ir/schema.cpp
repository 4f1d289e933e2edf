#include "ir/schema.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "ir/error.h"

namespace rewire::ir {
namespace {

struct KindText {
  std::string_view name, article;
};
constexpr KindText kKinds[] = {{"bool", "a bool"}, {"int", "an int"}, {"float", "a float"},
                               {"enum", "one of"}, {"str", "text"},   {"list", "a list of floats"}};

const KindText& text_of(ParameterKind kind) {
  return kKinds[static_cast<std::size_t>(kind)];
}

/// Returns all of `text` as a T, or nothing.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

[[noreturn]] void refuse(const ParameterSpec& parameter, std::string_view key, std::string_view text,
                         std::string_view why) {
  user_error("{}={} {}: it takes {}", key, text, why, parameter.takes());
}

template <class Number>
void check_number(const ParameterSpec& parameter, Number value, std::string_view key) {
  const auto wide = static_cast<long double>(value);
  if (!std::isfinite(wide)) refuse(parameter, key, fmt::format("{}", value), "is not a finite float");
  if (!parameter.bounds.hold(wide)) refuse(parameter, key, fmt::format("{}", value), "is out of range");
}

ParameterSpec make(std::string_view name, ParameterKind kind, Attribute default_value, std::string_view doc) {
  ParameterSpec parameter;
  parameter.name = name;
  parameter.kind = kind;
  parameter.default_text = value_text(default_value);
  parameter.default_value = std::move(default_value);
  parameter.doc = doc;
  return parameter;
}

std::vector<std::string> edges_of(const ParameterSpec& parameter) {
  if (parameter.kind == ParameterKind::boolean) return {"true", "false"};
  if (parameter.kind == ParameterKind::choice) return parameter.values;
  if (parameter.kind != ParameterKind::integer && parameter.kind != ParameterKind::number) return {};
  const bool whole = parameter.kind == ParameterKind::integer;
  std::vector<std::string> edges;
  const auto add = [&](double bound, bool excluded, double inward) {
    if (!std::isfinite(bound)) return;
    // For a float, the nearest tested value is a thousandth
    // of the bound's size away, or of 1 if that is larger.
    const double step = whole ? 1 : 1e-3 * std::max(1.0, std::abs(bound));
    const double value = excluded ? bound + inward * step : bound;
    if (whole && std::abs(value) > 0x1p53) return;  // no bound in practice
    edges.push_back(whole ? fmt::format("{}", static_cast<std::int64_t>(value)) : fmt::format("{}", value));
  };
  add(parameter.bounds.min, parameter.bounds.min_excluded, 1);
  add(parameter.bounds.max, parameter.bounds.max_excluded, -1);
  return edges;
}

template <class T>
T&& of_kind(Attribute& value, std::string_view key) {
  if (!std::holds_alternative<T>(value)) internal_error("the value of {} is of another kind", key);
  return std::move(std::get<T>(value));
}

}  // namespace

bool Bounds::hold(long double value) const {  // written so that a NaN fails
  return (min_excluded ? value > min : value >= min) && (max_excluded ? value < max : value <= max);
}

ParameterSpec ParameterSpec::at_least(double low) && {
  bounds.min = low;
  return std::move(*this);
}
ParameterSpec ParameterSpec::above(double low) && {
  bounds.min = low;
  bounds.min_excluded = true;
  return std::move(*this);
}
ParameterSpec ParameterSpec::at_most(double high) && {
  bounds.max = high;
  return std::move(*this);
}
ParameterSpec ParameterSpec::below(double high) && {
  bounds.max = high;
  bounds.max_excluded = true;
  return std::move(*this);
}

std::string_view ParameterSpec::kind_name() const {
  return text_of(kind).name;
}

std::string ParameterSpec::range() const {
  if (kind == ParameterKind::choice) return fmt::format("{}", fmt::join(values, "|"));
  const bool low = std::isfinite(bounds.min), high = std::isfinite(bounds.max);
  if (low && high && !bounds.min_excluded && !bounds.max_excluded)
    return fmt::format("{} to {}", bounds.min, bounds.max);
  std::string text = low ? fmt::format("{} {}", bounds.min_excluded ? ">" : ">=", bounds.min) : "";
  if (high) text += fmt::format("{}{} {}", low ? " and " : "", bounds.max_excluded ? "<" : "<=", bounds.max);
  return text;
}

std::string ParameterSpec::takes() const {
  const std::string bound = range();
  return fmt::format("{}{}{}", text_of(kind).article, bound.empty() ? "" : " ", bound);
}

ParameterInfo ParameterSpec::info() const {
  return {name, std::string(kind_name()), default_text, range(), doc, edges_of(*this)};
}

Attribute ParameterSpec::parse(std::string_view text) const {
  switch (kind) {
    case ParameterKind::boolean:
      if (text == "true" || text == "1" || text == "on") return true;
      if (text == "false" || text == "0" || text == "off") return false;
      refuse(*this, name, text, "is not a bool");
    case ParameterKind::integer: {
      const std::optional<std::int64_t> value = parse_int(text);
      if (!value) refuse(*this, name, text, "is not an int");
      if (!bounds.hold(static_cast<long double>(*value))) refuse(*this, name, text, "is out of range");
      return *value;
    }
    case ParameterKind::number: {
      const std::optional<double> value = parse_number<double>(text);
      if (!value || !std::isfinite(*value)) refuse(*this, name, text, "is not a finite float");
      if (!bounds.hold(*value)) refuse(*this, name, text, "is out of range");
      return *value;
    }
    case ParameterKind::choice:
    case ParameterKind::text:
      return accept(std::string(text), name);
    case ParameterKind::numbers:
      break;
  }
  internal_error("{} is a list, which has no text form", name);
}

Attribute ParameterSpec::accept(Attribute value, std::string_view key) const {
  switch (kind) {
    case ParameterKind::boolean:
      return of_kind<bool>(value, key);
    case ParameterKind::integer:
      check_number(*this, of_kind<std::int64_t>(value, key), key);
      return value;
    case ParameterKind::number:
      if (const std::int64_t* whole = std::get_if<std::int64_t>(&value)) value = static_cast<double>(*whole);
      check_number(*this, of_kind<double>(value, key), key);
      return value;
    case ParameterKind::choice: {
      const std::string& word = of_kind<std::string>(value, key);
      if (std::ranges::find(values, word) == values.end()) {
        user_error("{}={} is unknown: it takes {}{}", key, word, takes(), did_you_mean(word, values));
      }
      return value;
    }
    case ParameterKind::text:
      return of_kind<std::string>(value, key);
    case ParameterKind::numbers:
      for (const double element : of_kind<Doubles>(value, key)) check_number(*this, element, key);
      return value;
  }
  return value;
}

ParameterSpec bool_parameter(std::string_view name, bool default_value, std::string_view doc) {
  return make(name, ParameterKind::boolean, default_value, doc);
}
ParameterSpec int_parameter(std::string_view name, std::int64_t default_value, std::string_view doc) {
  return make(name, ParameterKind::integer, default_value, doc);
}
ParameterSpec float_parameter(std::string_view name, double default_value, std::string_view doc) {
  return make(name, ParameterKind::number, default_value, doc);
}
ParameterSpec enum_parameter(std::string_view name, std::vector<std::string> values, std::string_view doc) {
  ParameterSpec parameter = make(name, ParameterKind::choice, values.at(0), doc);
  parameter.values = std::move(values);
  return parameter;
}
ParameterSpec text_parameter(std::string_view name, std::string_view default_value, std::string_view doc) {
  return make(name, ParameterKind::text, std::string(default_value), doc);
}
ParameterSpec path_parameter(std::string_view name, std::string_view default_value, std::string_view doc) {
  ParameterSpec parameter = text_parameter(name, default_value, doc);
  parameter.is_path = true;
  return parameter;
}
ParameterSpec list_parameter(std::string_view name, Doubles default_value, std::string_view doc) {
  return make(name, ParameterKind::numbers, std::move(default_value), doc);
}

Attributes settle(const Schema& schema, const Attributes& given, std::string_view section) {
  Attributes settled;
  for (const ParameterSpec& parameter : schema) {
    const Attribute* value = given.find(parameter.name);
    settled.set(parameter.name, parameter.accept(value != nullptr ? *value : parameter.default_value,
                                                 fmt::format("{}.{}", section, parameter.name)));
  }
  return settled;
}

const ParameterSpec* find_parameter(const Schema& schema, std::string_view name) {
  const auto found = std::ranges::find(schema, name, &ParameterSpec::name);
  return found == schema.end() ? nullptr : &*found;
}

std::string value_text(const Attribute& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, Ints> || std::is_same_v<T, Doubles>) {
          return fmt::format("[{}]", fmt::join(held, ", "));
        } else {
          return fmt::format("{}", held);
        }
      },
      value);
}

bool is_identifier(std::string_view text) {
  const auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
  return !text.empty() && lower(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return lower(c) || (c >= '0' && c <= '9') || c == '_'; });
}

std::optional<std::int64_t> parse_int(std::string_view text) {
  return parse_number<std::int64_t>(text);
}

}  // namespace rewire::ir
