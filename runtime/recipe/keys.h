// The table of a recipe's keys: where each value goes, its kind and its bounds. The reader, the writer and
// the nearest-match hints all read this table. A new key of Rewire's own is one row; those of models, sources
// of images, transforms, objectives, optimizers and schedules come from their schemas.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/schema.h"
#include "runtime/recipe/recipe.h"

namespace rewire::runtime {

/// A pointer to the field of a Recipe that holds the value; Attributes hold it by its name.
using RecipeTarget =
    std::variant<bool*, std::int64_t*, double*, std::string*, std::vector<double>*, ir::Attributes*>;

/// Where a key has an effect, by another key's value.
struct RecipeCondition {
  std::function<bool(const Recipe&)> holds = nullptr;  // null: everywhere
  std::string text = {};                               // "optimizer.name=sgd"
};

struct RecipeKey {
  std::string section;     // "" for the keys above the first section
  ir::ParameterSpec spec;  // its default is that of Attributes only
  RecipeTarget target;
  RecipeCondition only = {};
  bool selects = false;  // says what the other keys of the section are of
  /// Of text that is words joined by '+', which TOML may have as a list of strings: refuses others; `key` stands in
  /// its errors.
  void (*check_words)(std::string_view text, std::string_view key) = nullptr;

  bool has_effect(const Recipe& recipe) const { return only.holds == nullptr || only.holds(recipe); }

  /// "train.batch", as messages and --set spell it.
  std::string path() const;
  ir::Attribute value() const;
  /// UserError where the value is out of range, or no choice.
  void set(ir::Attribute value) const;
};

/// The rows, bound to the fields of `recipe`, in the order that a written recipe has.
std::vector<RecipeKey> recipe_keys(Recipe& recipe);

/// Those of a [[view]], bound to its fields.
std::vector<RecipeKey> view_keys(ViewSpec& view);

/// The path that a key has now, which earlier recipes spell otherwise; the same path for all others.
std::string current_path(std::string path);

}  // namespace rewire::runtime
