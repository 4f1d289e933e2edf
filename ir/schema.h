// What a plugin, an objective, an optimizer, a source of images or a section of a recipe can be told:
// parameters with a kind, a default and bounds. Values are read, refused and printed here alone, in one way
// for all of them.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attribute.h"

namespace rewire::ir {

/// In the order of the plugins' ABI (REWIRE_PARAMETER_…), which has no lists.
enum class ParameterKind : std::uint8_t { boolean, integer, number, choice, text, numbers };

/// Of a number, or of each number of a list.
struct Bounds {
  double min = -std::numeric_limits<double>::infinity(), max = std::numeric_limits<double>::infinity();
  bool min_excluded = false, max_excluded = false;

  bool hold(long double value) const;  // which holds every integer and every double
};

/// A parameter as text: what `info` commands print.
struct ParameterInfo {
  std::string name, type, default_value, range, doc;
  /// The values that a test should try: all of a bool or enum, a number's bounds, or what is next to a bound
  /// that is itself refused.
  std::vector<std::string> edges = {};
};

struct ParameterSpec {
  std::string name;
  ParameterKind kind = ParameterKind::text;
  Attribute default_value = false;  // of the kind
  std::string default_text = {};    // as it was written
  Bounds bounds = {};
  std::vector<std::string> values = {};  // of a choice
  std::string doc = {};                  // one line
  bool is_path = false;                  // of text: of a file or folder, which recipes record as absolute

  ParameterSpec at_least(double low) &&;
  ParameterSpec above(double low) &&;
  ParameterSpec at_most(double high) &&;
  ParameterSpec below(double high) &&;

  /// "bool", "int", "float", "enum", "str", "list".
  std::string_view kind_name() const;
  /// "feature|global", "> 0", "0 to 1"; "" where every value of the kind is taken.
  std::string range() const;
  /// "a float > 0": what messages say that it takes.
  std::string takes() const;
  ParameterInfo info() const;
  /// All of `text` as a value of the kind: true|false|1|0|on|off, 3, 0.5, a word. UserError
  /// "eps=-1 is out of range: it takes a float > 0".
  Attribute parse(std::string_view text) const;
  /// `value`, an integer as a number where one is wanted. UserError as parse's where it is out of range or no
  /// choice; `key` stands in it ("optimizer.eps"). InternalError where it is of another kind.
  Attribute accept(Attribute value, std::string_view key) const;
};
using Schema = std::vector<ParameterSpec>;

ParameterSpec bool_parameter(std::string_view name, bool default_value, std::string_view doc);
ParameterSpec int_parameter(std::string_view name, std::int64_t default_value, std::string_view doc);
ParameterSpec float_parameter(std::string_view name, double default_value, std::string_view doc);
/// The first value is the default.
ParameterSpec enum_parameter(std::string_view name, std::vector<std::string> values, std::string_view doc);
ParameterSpec text_parameter(std::string_view name, std::string_view default_value, std::string_view doc);
/// A text that is a path; "" where there is none.
ParameterSpec path_parameter(std::string_view name, std::string_view default_value, std::string_view doc);
ParameterSpec list_parameter(std::string_view name, Doubles default_value, std::string_view doc);

/// Of the schema's parameters those that `given` has, accepted, and the defaults of all others. `section`
/// stands before their names in messages. What the schema does not know is dropped.
Attributes settle(const Schema& schema, const Attributes& given, std::string_view section);

/// The parameter of that name, or null.
const ParameterSpec* find_parameter(const Schema& schema, std::string_view name);

/// true, 3, 0.5, text, [0.5, 1]: as `info` and messages print it.
std::string value_text(const Attribute& value);

/// [a-z][a-z0-9_]*
bool is_identifier(std::string_view text);
/// All of `text` as a whole number in 64 bits, or nothing.
std::optional<std::int64_t> parse_int(std::string_view text);

}  // namespace rewire::ir
