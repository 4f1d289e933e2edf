// A plugin of its own from formulas: its C++ source.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace formula {

/// Returns the source of a plugin `name` that computes what the formulas say, over rewire_formula.hpp: it adds the same
/// weights and emits the same ops in the same order. `values` are parameters of the plugin `formula`; blanks in them
/// count for nothing. Random numbers are others, as each plugin has its own. Throws Error if a text is no formula.
std::string plugin_source(std::string_view name,
                          const std::vector<std::pair<std::string, std::string>>& values);

/// Whether the plugin `formula` has a parameter of this name, apart from the filters that every plugin has.
bool is_parameter(std::string_view key);

}  // namespace formula
