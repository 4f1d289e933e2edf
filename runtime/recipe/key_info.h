// The recipe's keys as help, completion and the reference show them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/registry.h"
#include "runtime/recipe/keys.h"
#include "runtime/recipe/recipe.h"

namespace rewire::runtime {

struct KeyInfo {
  std::string path;           // "train.batch"
  std::string kind, range;    // "int", "> 0"
  std::string default_value;  // "" for an empty text
  std::string doc;            // one line of any length
  std::string condition;      // "optimizer.name=sgd"; "" if the key always has an effect
  std::vector<ir::NamedDoc>
      values;  // the values it takes, where they can be listed; with empty docs unless they name residents
  std::vector<OwnedParameter> owners;  // for a parameter that several residents have: what each says of it
  bool is_path = false;
  bool has_effect = true;  // in the recipe that key_infos() was given

  std::string_view section() const;
};

/// Returns what the owners say in one line, grouped: "adamw, lamb: 0.9; muon: 0.95". "" if all say the same.
std::string by_owner(const KeyInfo& key, std::string OwnedParameter::* what);

/// Returns every key in the recipe's order, with the defaults that follow from the names chosen in `recipe`.
std::vector<KeyInfo> key_infos(const Recipe& recipe);

/// Returns the keys that a person may mean by a name without a section, such as `lr` or `batch-size`: the keys with this
/// name; without any, the keys whose name begins with the same words.
std::vector<KeyInfo> keys_named(std::string_view name);

}  // namespace rewire::runtime
