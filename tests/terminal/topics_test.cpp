// Pages of `rewire help`: what they say is what the code has.
#include "cli/topics.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "cli/exit_codes.h"
#include "cli/help.h"
#include "ir/error.h"
#include "runtime/exec/make_engine.h"
#include "runtime/recipe/key_info.h"
#include "runtime/recipe/keys.h"
#include "tests/support/catch.h"

namespace rewire::cli {
namespace {

namespace fs = std::filesystem;

/// The variables that the sources read, as getenv and the loader of libraries name them.
std::set<std::string> variables_read() {
  const std::regex name(R"re((?:getenv|environment|variable)\("([A-Z_]+)"\)|"(REWIRE_[A-Z_]+|CUDA_HOME)")re");
  std::set<std::string> found;
  for (const char* folder : {"ir", "codegen", "models", "programs", "runtime", "cli"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(REWIRE_SOURCE_DIR) / folder)) {
      const std::string file = entry.path().string();
      if (!file.ends_with(".cpp") && !file.ends_with(".h")) continue;
      std::ifstream stream(file);
      const std::string text{std::istreambuf_iterator<char>(stream), {}};
      for (std::sregex_iterator match(text.begin(), text.end(), name), end; match != end; ++match)
        found.insert((*match)[1].matched ? (*match)[1] : (*match)[2]);
    }
  }
  return found;
}

TEST_CASE("Every topic fits 80 columns, and nothing in it is left to be filled") {
  REQUIRE_FALSE(topics().empty());
  for (const Topic& topic : topics()) {
    CAPTURE(topic.name);
    const std::string page = topic_page(topic.name);
    CHECK(page.find("{{") == std::string::npos);
    std::istringstream lines(page);
    std::string previous = "x";
    for (std::string line; std::getline(lines, line); previous = line) {
      CAPTURE(line);
      CHECK(
          (line.size() <= kPageWidth || line.find('/') != std::string::npos));  // a path is as long as it is
      CHECK_FALSE((line.empty() && previous.empty()));
    }
    CHECK_THAT(list_of_topics(), REWIRE_CATCH_CONTAINS("\n  " + topic.name + " "));
  }
}

TEST_CASE(
    "The topic on the environment names the variables that the sources read, and no other of Rewire's") {
  const std::string page = topic_page("environment");
  const std::set<std::string> read = variables_read();
  CHECK(read.size() > 8);
  for (const std::string& name : read) {
    CAPTURE(name);
    CHECK_THAT(page, REWIRE_CATCH_CONTAINS("  " + name + " "));
  }
  const std::regex own("REWIRE_[A-Z_]+");
  for (std::sregex_iterator match(page.begin(), page.end(), own), end; match != end; ++match)
    CHECK(read.contains(match->str()));
}

TEST_CASE("The topic on recipes has every key, and each key a page that says what it does") {
  const std::string page = topic_page("recipes");
  runtime::Recipe recipe;
  std::size_t count = 0;
  for (const runtime::RecipeKey& key : runtime::recipe_keys(recipe)) {
    CAPTURE(key.path());
    CHECK_THAT(page, REWIRE_CATCH_CONTAINS("\n  " + key.spec.name + " "));
    const std::optional<std::string> own = key_page(key.path());
    REQUIRE(own.has_value());
    CHECK(own->starts_with(key.path() + ": "));
    ++count;
  }
  for (const runtime::KeyInfo& key : runtime::key_infos({})) {
    CAPTURE(key.path);
    CHECK_FALSE(key.doc.empty());
    CHECK(key.doc.find_first_of("`\n") == std::string::npos);
    CHECK(key.doc.find("](") == std::string::npos);
  }
  CHECK(runtime::key_infos({}).size() == count);
  CHECK_THAT(*key_page("train"), REWIRE_CATCH_CONTAINS("train.batch"));
  CHECK_THAT(*key_page("train.batch"), REWIRE_CATCH_CONTAINS("int, 1 to "));
  CHECK_FALSE(key_page("train.bach").has_value());
  CHECK(key_page("train.") == key_page("train"));
  CHECK_FALSE(key_page("").has_value());
}

TEST_CASE("Defaults and choices of keys are those of the recipe that is asked of") {
  runtime::Recipe recipe;
  recipe.optimizer.name = "sgd";
  const auto find = [](const std::vector<runtime::KeyInfo>& keys, const std::string& path) {
    return *std::ranges::find(keys, path, &runtime::KeyInfo::path);
  };
  const std::vector<runtime::KeyInfo> keys = runtime::key_infos(recipe);
  CHECK(find(keys, "optimizer.name").default_value == "sgd");
  CHECK(find(keys, "optimizer.momentum").has_effect);
  CHECK_FALSE(find(keys, "optimizer.beta2").has_effect);
  CHECK(find(runtime::key_infos({}), "optimizer.beta2").has_effect);
  const auto names = [&](const std::string& path) {
    std::vector<std::string> found;
    for (const ir::NamedDoc& value : find(keys, path).values) found.push_back(value.name);
    return found;
  };
  CHECK(names("train.dtype") == std::vector<std::string>{"f32", "bf16"});
  CHECK(names("train.tf32") == std::vector<std::string>{"true", "false"});
}

TEST_CASE("The topic on devices names every engine, that on exit codes every code") {
  for (const std::string& engine : runtime::engine_names())
    CHECK_THAT(topic_page("devices"), REWIRE_CATCH_CONTAINS("\n  " + engine + " "));
  for (const ExitCode& row : exit_codes())
    CHECK_THAT(topic_page("exit-codes"), REWIRE_CATCH_CONTAINS("\n  " + std::string(row.code) + " "));
}

}  // namespace
}  // namespace rewire::cli
