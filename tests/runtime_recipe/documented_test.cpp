// The table of keys in docs/guide/train.md against the recipe's own: every key, its type, default and choices.
#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "models/model.h"
#include "runtime/recipe/keys.h"
#include "tests/support/catch.h"

namespace rewire::runtime {
namespace {

struct Row {
  std::string key, type, standard, meaning;
};

/// The rows below the heading: | `key` | type | default | meaning |
std::vector<Row> documented_keys() {
  std::ifstream file(REWIRE_DOCS "/training.md");
  std::vector<Row> rows;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) inside = line == "## The recipe";
    if (!inside || !line.starts_with("| `")) continue;
    std::vector<std::string> cells;
    std::size_t begin = 2;
    for (std::size_t end = line.find(" |", begin); end != std::string::npos; end = line.find(" |", begin)) {
      cells.push_back(line.substr(begin, end - begin));
      begin = end + 3;
    }
    REQUIRE(cells.size() == 4);
    rows.push_back({cells[0], cells[1], cells[2], cells[3]});
  }
  return rows;
}

/// By path, what a recipe that says nothing but `settings` has, as TOML.
std::map<std::string, std::string> values_of(const std::vector<std::string>& settings) {
  std::istringstream text(to_toml(parse_recipe("", "", settings)));
  std::map<std::string, std::string> values;
  std::string section;
  for (std::string line; std::getline(text, line);) {
    const std::size_t equals = line.find(" = ");
    if (line.starts_with('[')) section = line.substr(1, line.find(']') - 1) + ".";
    if (equals != std::string::npos) values[section + line.substr(0, equals)] = line.substr(equals + 3);
  }
  return values;
}

/// The same of all keys, each beside the choice that it belongs to.
std::map<std::string, std::string> defaults() {
  std::map<std::string, std::string> values = values_of({});
  Recipe recipe;
  for (const RecipeKey& key : recipe_keys(recipe)) {
    if (!key.selects) continue;
    for (const std::string& choice : key.spec.values) values.merge(values_of({key.path() + "=" + choice}));
  }
  for (const models::Model* model : models::models())
    values.merge(values_of({"model.name=" + std::string(model->name)}));
  return values;
}

TEST_CASE("docs/guide/train.md lists every key of a recipe with its type, default and choices") {
  const std::vector<Row> rows = documented_keys();
  const std::map<std::string, std::string> values = defaults();
  Recipe recipe;
  const std::vector<RecipeKey> keys = recipe_keys(recipe);
  REQUIRE(rows.size() == keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::string path = keys[i].path();
    CAPTURE(path);
    CHECK(rows[i].key == "`" + path + "`");
    CHECK(rows[i].type == keys[i].spec.kind_name());
    CHECK(rows[i].standard == "`" + values.at(path) + "`");
    CHECK_FALSE(rows[i].meaning.empty());
    for (const std::string& choice : keys[i].spec.values)
      CHECK_THAT(rows[i].meaning, REWIRE_CATCH_CONTAINS("`" + choice + "`"));
  }
}

}  // namespace
}  // namespace rewire::runtime
