// The table of a recipe's keys: where each value goes, its type and its range. The reader, the writer and the
// nearest-match hints all read this table; a new key is one row.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/recipe/recipe.h"

namespace rewire::runtime {

/// A pointer to the field of a Recipe that holds the value. An optional one is not written while it is empty.
using RecipeTarget =
    std::variant<bool*, std::int64_t*, double*, std::string*, std::vector<double>*,
                 std::optional<std::int64_t>*, std::optional<double>*, std::optional<std::string>*>;

/// Bounds of a number, or of each number of a list; both ends belong.
struct RecipeRange {
  double minimum = -std::numeric_limits<double>::max();
  double maximum = std::numeric_limits<double>::max();
};

/// Where a key has an effect, by another key's value.
struct RecipeCondition {
  bool (*holds)(const Recipe&) = nullptr;  // null: everywhere
  std::string_view text = {};              // "optimizer.name=sgd"
};

struct RecipeKey {
  std::string_view section;  // "" for the keys above the first section
  std::string_view name;
  RecipeTarget target;
  RecipeRange range = {};
  std::vector<std::string> choices = {};  // of a string; empty: any
  RecipeCondition only = {};

  bool has_effect(const Recipe& recipe) const { return only.holds == nullptr || only.holds(recipe); }

  /// "train.batch", as messages and --set spell it.
  std::string path() const;
  /// "an integer", "a list of numbers", …
  std::string_view type_name() const;
};

/// The rows, bound to the fields of `recipe`, in the order that a written recipe has.
std::vector<RecipeKey> recipe_keys(Recipe& recipe);

}  // namespace rewire::runtime
