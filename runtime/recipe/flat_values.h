// A recipe's values by key, all tables resolved: what reports compare, and the event file's hparams.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/recipe/recipe.h"

namespace rewire::runtime {

/// A list is its text, "[0.5, 1.0]".
using FlatValue = std::variant<bool, std::int64_t, double, std::string>;
/// {"train.batch": 64, "plugin.gain.factor": 0.5, "view.0.size": 32}: a plugin is told by its name, a view by its number.
using FlatValues = std::map<std::string, FlatValue>;

/// Of a recipe's TOML. UserError as parse_toml().
FlatValues flat_values(std::string_view toml, std::string_view file_name);
/// Those of a recipe that are not the defaults of its choices (model, optimizer, …), and the choices themselves that are not.
/// No plugins.
FlatValues chosen_values(const Recipe& recipe);
/// As TOML has it, text without quotes.
std::string flat_text(const FlatValue& value);

}  // namespace rewire::runtime
