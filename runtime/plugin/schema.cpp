#include "runtime/plugin/schema.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "ir/error.h"
#include "runtime/plugin/filters.h"

namespace rewire::runtime {
namespace {

/// Splits an enum such as "feature|global" into its values.
std::vector<std::string> enum_values(std::string_view text) {
  std::vector<std::string> values;
  while (true) {
    const std::size_t end = text.find('|');
    values.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return values;
    text.remove_prefix(end + 1);
  }
}

/// The size of a parameter of ABI 1.0; those of newer minors are larger.
constexpr std::size_t kAbi10ParameterSize = offsetof(rewire_parameter, max) + sizeof(rewire_parameter::max);

ir::Bounds read_bounds(const rewire_parameter& c) {
  ir::Bounds bounds;
  if ((c.bounds & REWIRE_MIN) != 0) bounds.min = c.min;
  if ((c.bounds & REWIRE_MAX) != 0) bounds.max = c.max;
  bounds.min_excluded = (c.bounds & REWIRE_MIN_EXCLUDED) != 0;
  bounds.max_excluded = (c.bounds & REWIRE_MAX_EXCLUDED) != 0;
  return bounds;
}

ir::ParameterSpec read_parameter(const rewire_parameter& c) {
  ir::ParameterSpec parameter;
  if (c.name == nullptr || !ir::is_identifier(c.name)) {
    user_error("the name of its parameter '{}' is invalid: a name is [a-z][a-z0-9_]*",
               c.name == nullptr ? "" : c.name);
  }
  parameter.name = c.name;
  if (c.default_value == nullptr || c.doc == nullptr) {
    user_error("its parameter '{}' lacks a default or a doc line", c.name);
  }
  if (c.kind > REWIRE_PARAMETER_STR) user_error("its parameter '{}' is of unknown kind {}", c.name, c.kind);
  if (c.kind == REWIRE_PARAMETER_ENUM && c.values == nullptr) {
    user_error("its parameter '{}' is an enum with no values", c.name);
  }
  parameter.default_text = c.default_value;
  parameter.doc = c.doc;
  parameter.kind = static_cast<ir::ParameterKind>(c.kind);
  if (c.kind == REWIRE_PARAMETER_ENUM) parameter.values = enum_values(c.values);
  if (c.kind == REWIRE_PARAMETER_INT || c.kind == REWIRE_PARAMETER_FLOAT) parameter.bounds = read_bounds(c);
  return parameter;
}

}  // namespace

ir::Schema read_schema(const rewire_plugin& plugin) {
  ir::Schema schema;
  if (plugin.parameter_count > 0 &&
      (plugin.parameters == nullptr || plugin.parameter_size < kAbi10ParameterSize)) {
    user_error("its schema of {} parameters is missing or too small", plugin.parameter_count);
  }
  const char* at = reinterpret_cast<const char*>(plugin.parameters);
  for (std::uint32_t i = 0; i < plugin.parameter_count; ++i, at += plugin.parameter_size) {
    rewire_parameter c{};  // fields that an older minor does not have stay zero
    std::memcpy(&c, at, std::min<std::size_t>(plugin.parameter_size, sizeof(c)));
    ir::ParameterSpec parameter = read_parameter(c);
    if (Filters::is_filter(parameter.name)) {
      user_error("its parameter '{}' has the name of a filter, which the host gives every plugin",
                 parameter.name);
    }
    if (std::ranges::any_of(schema, [&](const auto& other) { return other.name == parameter.name; })) {
      user_error("it declares the parameter '{}' twice", parameter.name);
    }
    try {
      parameter.default_value = parameter.parse(parameter.default_text);
    } catch (const UserError& e) {
      user_error("a default in its schema is refused: {}", e.what());
    }
    schema.push_back(std::move(parameter));
  }
  return schema;
}

std::string canonical_text(const ir::Attribute& value, std::string_view text) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  return std::string(text);
}

}  // namespace rewire::runtime
