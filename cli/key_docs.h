// The keys of recipes as help and completion show them: kinds, defaults and bounds are those that the recipe's reader has,
// meanings those of docs/guide/train.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/recipe/recipe.h"

namespace rewire::cli {

struct KeyDoc {
  std::string path;                 // "train.batch"
  std::string kind, range;          // "int", "> 0"
  std::string default_value;        // "" of text that is empty
  std::string doc;                  // of any length, in a line
  std::string condition;            // "optimizer.name=sgd"; "": it has an effect everywhere
  std::vector<std::string> values;  // that it takes, where these can be listed
  bool is_path = false;
  bool has_effect = true;  // in the recipe that was asked of

  std::string_view section() const;
};

/// The keys that a person may mean by this name without a section, as `lr` or `batch-size`: those whose own name it is; where
/// there are none, those that it and their name begin alike, word by word.
std::vector<KeyDoc> keys_named(std::string_view name);

/// Every key, in the recipe's order, with the defaults that `recipe` gives by its choices.
std::vector<KeyDoc> key_docs(const runtime::Recipe& recipe);

}  // namespace rewire::cli
