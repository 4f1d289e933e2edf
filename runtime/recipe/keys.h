// The table of a recipe's keys: the field each value goes to, its kind, bounds and documentation. The reader, the
// writer, help, completion and the reference read this table. A new key of Rewire's own is one row; the keys of models,
// sources, transforms, objectives, optimizers and schedules come from their schemas.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/registry.h"
#include "ir/schema.h"
#include "runtime/recipe/recipe.h"

namespace rewire::runtime {

/// A pointer to the field of a Recipe that holds the value; Attributes hold it by its name.
using RecipeTarget =
    std::variant<bool*, std::int64_t*, double*, std::string*, std::vector<double>*, ir::Attributes*>;

/// The condition on another key's value under which a key has an effect.
struct RecipeCondition {
  std::function<bool(const Recipe&)> holds = nullptr;  // null: everywhere
  std::string text = {};                               // "optimizer.name=sgd"
};

/// A parameter of one resident (the resident's name, then what it says of the parameter).
struct OwnedParameter {
  std::string owner, default_value, doc;
};

struct RecipeKey {
  std::string section;     // "" for the keys above the first section
  ir::ParameterSpec spec;  // its default is that of Attributes only
  RecipeTarget target;
  RecipeCondition only = {};
  bool selects = false;  // names the resident whose schema the other keys of the section come from
  /// For a parameter that several residents have: what each says of it.
  std::vector<OwnedParameter> owners = {};
  std::vector<ir::NamedDoc> residents = {};  // if `selects`: the names it takes
  /// For a text of words joined by '+', which TOML may give as a list of strings: throws UserError, which names `key`,
  /// if a word is unknown.
  void (*check_words)(std::string_view text, std::string_view key) = nullptr;

  bool has_effect(const Recipe& recipe) const { return only.holds == nullptr || only.holds(recipe); }

  /// "train.batch", as messages and --set spell it.
  std::string path() const;
  ir::Attribute value() const;
  /// UserError where the value is out of range, or no choice.
  void set(ir::Attribute value) const;
};

/// Returns the rows, bound to the fields of `recipe`, in the order of a written recipe.
std::vector<RecipeKey> recipe_keys(Recipe& recipe);

/// Returns the rows of a [[view]], bound to its fields.
std::vector<RecipeKey> view_keys(ViewSpec& view);

/// Returns the present path of a key that earlier recipes spell in another way; any other path unchanged.
std::string current_path(std::string path);

}  // namespace rewire::runtime
