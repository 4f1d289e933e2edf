// A recipe's values by key, all tables flattened, for reports and the event file's hparams.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/recipe/recipe.h"

namespace rewire::runtime {

/// The value of a key; a list is its text, "[0.5, 1.0]".
using FlatValue = std::variant<bool, std::int64_t, double, std::string>;
/// {"train.batch": 64, "plugin.gain.factor": 0.5, "view.0.size": 32}: plugins by name, views by number.
using FlatValues = std::map<std::string, FlatValue>;

/// Flattens a recipe's TOML. Throws UserError like parse_toml().
FlatValues flat_values(std::string_view toml, std::string_view file_name);
/// Returns a recipe's values that are not the defaults of its choices (model, optimizer, …), and the choices
/// that are not defaults. Leaves out plugins.
FlatValues chosen_values(const Recipe& recipe);
/// Returns the value as in TOML, text without quotes.
std::string flat_text(const FlatValue& value);

}  // namespace rewire::runtime
