// Parameters with a kind, a default and bounds, for plugins, objectives, optimizers, sources of images and
// sections of a recipe. Only this file reads, refuses and prints their values.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attribute.h"

namespace rewire::ir {

/// The kinds, in the order of the plugins' ABI (REWIRE_PARAMETER_…), which has no lists.
enum class ParameterKind : std::uint8_t { boolean, integer, number, choice, text, numbers };

/// The bounds of a number, or of each number of a list.
struct Bounds {
  double min = -std::numeric_limits<double>::infinity(), max = std::numeric_limits<double>::infinity();
  bool min_excluded = false, max_excluded = false;

  bool hold(long double value) const;  // long double holds every integer and every double
};

/// A parameter as text, as `info` commands print it.
struct ParameterInfo {
  std::string name, type, default_value, range, doc;
  /// Values for a test to try: all of a bool or enum; a number's bounds, or values next to excluded bounds.
  std::vector<std::string> edges = {};
};

struct ParameterSpec {
  std::string name;
  ParameterKind kind = ParameterKind::text;
  Attribute default_value = false;  // of the kind
  std::string default_text = {};    // as it was written
  Bounds bounds = {};
  std::vector<std::string> values = {};  // the choices of an enum
  std::string doc = {};                  // one line
  bool is_path = false;                  // a text that is a path, which recipes record as absolute
  bool ends_in_path = false;             // a text KIND:PATH, or KIND alone

  ParameterSpec at_least(double low) &&;
  ParameterSpec above(double low) &&;
  ParameterSpec at_most(double high) &&;
  ParameterSpec below(double high) &&;

  /// Returns "bool", "int", "float", "enum", "str" or "list".
  std::string_view kind_name() const;
  /// Returns "feature|global", "> 0", "0 to 1"; "" if the kind has no restriction.
  std::string range() const;
  /// Returns the expectation for messages, "a float > 0".
  std::string takes() const;
  ParameterInfo info() const;
  /// Reads all of `text` as a value of the kind: true|false|1|0|on|off, 3, 0.5, a word. Throws UserError
  /// "eps=-1 is out of range: it takes a float > 0".
  Attribute parse(std::string_view text) const;
  /// Returns `value`, with an integer converted to a number if needed. Throws UserError as parse() if it is
  /// out of range or not a choice; its message has `key` ("optimizer.eps"). Throws InternalError if it is of
  /// another kind.
  Attribute accept(Attribute value, std::string_view key) const;
};
using Schema = std::vector<ParameterSpec>;

ParameterSpec bool_parameter(std::string_view name, bool default_value, std::string_view doc);
ParameterSpec int_parameter(std::string_view name, std::int64_t default_value, std::string_view doc);
ParameterSpec float_parameter(std::string_view name, double default_value, std::string_view doc);
/// Makes an enum parameter. The first value is the default.
ParameterSpec enum_parameter(std::string_view name, std::vector<std::string> values, std::string_view doc);
ParameterSpec text_parameter(std::string_view name, std::string_view default_value, std::string_view doc);
/// Makes a text parameter that is a path; "" is none.
ParameterSpec path_parameter(std::string_view name, std::string_view default_value, std::string_view doc);
ParameterSpec list_parameter(std::string_view name, Doubles default_value, std::string_view doc);

/// Returns a value for each parameter of the schema: the accepted one of `given`, else the default. Messages
/// prefix names with `section`. Values of other names are dropped.
Attributes settle(const Schema& schema, const Attributes& given, std::string_view section);

/// Returns the parameter of that name, or null.
const ParameterSpec* find_parameter(const Schema& schema, std::string_view name);

/// Returns the text of a value for `info` and messages: true, 3, 0.5, text, [0.5, 1].
std::string value_text(const Attribute& value);

/// Returns whether `text` matches [a-z][a-z0-9_]*.
bool is_identifier(std::string_view text);
/// Reads all of `text` as a 64-bit integer; nullopt if it is not one.
std::optional<std::int64_t> parse_int(std::string_view text);

}  // namespace rewire::ir
