// --join and --formula: a strategy as a formula, written as the spec of the plugin that computes it.
#pragma once

#include <string>

namespace rewire::cli {

/// Returns the spec of the plugin `formula` whose whole join is `expression`. Throws UserError if the text has a quote.
std::string spec_of_join(const std::string& expression);

/// Returns the spec of a file of formulas: TOML with the plugin's parameters as keys, such as join = "x + f".
/// Throws UserError if it cannot be read, holds a table or a list, or a text with a quote.
std::string spec_of_formula_file(const std::string& path);

/// Returns the source of a plugin `name` that computes what the spec of the plugin `formula` says, as one of the two
/// above returns it. Throws UserError with what is no formula, and with a filter.
std::string source_of_formulas(const std::string& name, const std::string& spec);

}  // namespace rewire::cli
