// Every rule of canonicalise has a file canonicalise/<rule>.rir. With that rule alone, each function @fires…
// becomes what @becomes… says, and each function @keeps… stays as it is.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "ir/passes/canonicalise.h"
#include "ir/passes/canonicalise_rules.h"
#include "ir/passes/dce.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/support/catch.h"

namespace rewire::ir {
namespace {

Module load(std::string_view rule) {
  const std::string path = std::string(IR_PASSES_GOLDENS "/canonicalise/") + std::string(rule) + ".rir";
  std::ifstream stream(path, std::ios::binary);
  REQUIRE(stream);
  return parse(std::string(std::istreambuf_iterator<char>(stream), {}), path);
}

/// The function's text without dead ops and without its name.
std::string text_of(const Module& module, std::string_view function_name) {
  Module copy = module;
  PassContext context;
  dce(copy, context);
  const std::string text = print(copy, copy.function(function_name));
  return text.substr(text.find('('));
}

std::string with_rule(const Module& module, std::string_view function_name, const Rule& rule) {
  Module copy = module;
  apply_rules(copy, copy.function(function_name), {rule});
  verify(copy);
  return text_of(copy, function_name);
}

}  // namespace

TEST_CASE("Every rule fires where it should, gives what it says, and leaves its near misses alone",
          "[ir][canonicalise]") {
  for (const Rule& rule : canonicalise_rules()) {
    CAPTURE(rule.name);
    const Module module = load(rule.name);
    int fires = 0, keeps = 0;
    for (const Function& function : module.functions) {
      CAPTURE(function.name);
      if (function.name.starts_with("fires")) {
        ++fires;
        const std::string becomes = "becomes" + function.name.substr(5);
        REQUIRE(module.find_function(becomes) != nullptr);
        CHECK(text_of(module, function.name) != text_of(module, becomes));
        CHECK(with_rule(module, function.name, rule) == text_of(module, becomes));
      } else if (function.name.starts_with("keeps")) {
        ++keeps;
        CHECK(with_rule(module, function.name, rule) == text_of(module, function.name));
      }
    }
    CHECK(fires > 0);
    CHECK(keeps > 0);
  }
}

TEST_CASE("Rules have unique names, and every golden file has its rule", "[ir][canonicalise]") {
  std::set<std::string> names;
  for (const Rule& rule : canonicalise_rules()) CHECK(names.insert(std::string(rule.name)).second);
  for (const auto& entry : std::filesystem::directory_iterator(IR_PASSES_GOLDENS "/canonicalise")) {
    CAPTURE(entry.path().string());
    CHECK(names.contains(entry.path().stem().string()));
  }
}

TEST_CASE("The rules together settle on one form", "[ir][canonicalise]") {
  for (const Rule& rule : canonicalise_rules()) {
    CAPTURE(rule.name);
    Module module = load(rule.name);
    PassContext context;
    canonicalise(module, context);
    dce(module, context);
    const std::string once = print(module);
    canonicalise(module, context);
    dce(module, context);
    CHECK(print(module) == once);
  }
}

}  // namespace rewire::ir
