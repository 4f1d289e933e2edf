// The words of the recipe's keys, which help, completion and the reference print.
#include "runtime/recipe/key_info.h"
#include "tests/support/catch.h"

namespace rewire::runtime {
namespace {

TEST_CASE("Every key of a recipe says in one plain line what it does, and names each of its choices") {
  Recipe recipe;
  for (const KeyInfo& key : key_infos(recipe)) {
    CAPTURE(key.path, key.doc);
    CHECK(key.doc.size() > 8);
    CHECK(key.doc.find_first_of("\n`") == std::string::npos);
    CHECK_FALSE(key.doc.ends_with('.'));
    if (key.kind != "enum") continue;
    for (const ir::NamedDoc& value : key.values) {
      CAPTURE(value.name);
      CHECK((!value.doc.empty() || key.doc.find(value.name) != std::string::npos));
    }
  }
}

}  // namespace
}  // namespace rewire::runtime
