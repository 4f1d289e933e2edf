// Attributes: named constants on ops, parameters and modules. They are sorted by name, so that printing is
// deterministic.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace rewire::ir {

using Ints = std::vector<std::int64_t>;
/// A list of doubles. It is a class of its own because of libstdc++ 12 and 13: they take a std::variant of
/// only numbers, strings and vectors for one that always holds a value, and if a copy of it runs out of
/// memory they destroy a value that does not exist.
struct Doubles : std::vector<double> {
  using std::vector<double>::vector;
  Doubles(std::vector<double> values) : std::vector<double>(std::move(values)) {}
};

/// The value of an attribute. The text form distinguishes the kinds by spelling:
/// true | 3 | 3.0 | "text" | [1, 2] | [1.0, 2.0].
using Attribute = std::variant<bool, std::int64_t, double, std::string, Ints, Doubles>;

class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string, Attribute>> items);

  void set(std::string_view name, Attribute value);
  void erase(std::string_view name);
  const Attribute* find(std::string_view name) const;  // nullptr if absent
  bool has(std::string_view name) const { return find(name) != nullptr; }

  /// Returns the value. Throws InternalError if it is absent or of another kind; the verifier has checked
  /// user input before.
  template <class T>
  const T& get(std::string_view name) const {
    const Attribute* attribute = find(name);
    if (attribute == nullptr || !std::holds_alternative<T>(*attribute)) missing(name);
    return std::get<T>(*attribute);
  }
  bool get_bool(std::string_view name) const { return get<bool>(name); }
  std::int64_t get_int(std::string_view name) const { return get<std::int64_t>(name); }
  double get_double(std::string_view name) const { return get<double>(name); }
  const std::string& get_string(std::string_view name) const { return get<std::string>(name); }
  const Ints& get_ints(std::string_view name) const { return get<Ints>(name); }

  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  bool empty() const { return items_.empty(); }
  bool operator==(const Attributes&) const = default;

 private:
  [[noreturn]] static void missing(std::string_view name);
  std::vector<std::pair<std::string, Attribute>> items_;
};

}  // namespace rewire::ir
