// A formula and the C++ source that it becomes: the same IR and the same initial weights, on tokens and on maps.
#include <fmt/format.h>

#include <map>
#include <regex>
#include <string>

#include "formula/cpp.h"
#include "ir/text.h"
#include "models/trial.h"
#include "tests/plugins/formula_graduates.h"
#include "tests/plugins/strategy.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

/// The module's text without what depends on the plugin's name: that name, and those of random streams.
std::string comparable(const ir::Module& module) {
  std::string text = std::regex_replace(ir::print(module), std::regex("graduates"), "formula");
  static const std::regex stream("(\\.formula\\.)(draw|drop|normal|uniform)_[a-z0-9_]+");
  std::map<std::string, std::size_t> numbers;
  std::string result;
  for (std::sregex_iterator match(text.begin(), text.end(), stream), end;; ++match) {
    if (match == end) return result + text;
    const std::size_t number = numbers.try_emplace(match->str(), numbers.size()).first->second;
    result += match->prefix().str() + fmt::format(".formula.stream_{}", number);
    if (std::next(match) == end) return result + match->suffix().str();
  }
}

TEST_CASE(
    "The source that a formula becomes rewrites a network to the same IR, with the same initial weights") {
  for (std::size_t i = 0; i < graduates().size(); ++i) {
    std::string spec = "formula:", shown;
    for (const auto& [key, value] : graduates()[i]) {
      spec += fmt::format("{}{}=\"{}\"", spec.ends_with(':') ? "" : ",", key, value);
      shown += fmt::format("{} = {}\n", key, value);
    }
    const std::string graduate = fmt::format("{}:which={}", REWIRE_GRADUATES, i);
    std::size_t compared = 0;
    for (const models::TrialNetwork& network : models::trial_networks()) {
      CAPTURE(shown, network.name);
      ir::Module formula;
      try {
        formula = rewritten(network.module, {spec});
      } catch (const UserError&) {  // a norm that maps do not have
        CHECK_THROWS_AS(rewritten(network.module, {graduate}), UserError);
        continue;
      }
      const ir::Module source = rewritten(network.module, {graduate});
      CHECK(comparable(source) == comparable(formula));
      const runtime::TensorMap ours = started(formula, {spec}), theirs = started(source, {graduate});
      REQUIRE(ours.size() == theirs.size());
      for (const auto& [name, tensor] : ours) {
        CAPTURE(name);
        REQUIRE(theirs.contains(name));
        CHECK(runtime::to_double(tensor).data == runtime::to_double(theirs.at(name)).data);
      }
      ++compared;
    }
    CAPTURE(shown);
    CHECK(compared >= 2);
  }
}

TEST_CASE("Formulas in C++ take parameters and other ops") {
  for (const models::TrialNetwork& network : models::trial_networks()) {
    CAPTURE(network.name);
    const ir::Module formula = rewritten(
        network.module,
        {R"~(formula:weights="gamma[channels] = 0.3",let="s = sum(h)",join="x + gamma * exp(s) * f")~"});
    ir::Module by_hand = rewritten(network.module, {fmt::format("{}:start=0.3", REWIRE_BY_HAND)});
    CHECK(std::regex_replace(ir::print(by_hand), std::regex("by_hand"), "formula") == ir::print(formula));
  }
}

TEST_CASE("The source of a formula is the formula in C++") {
  const std::string source = formula::plugin_source(
      "mine",
      {{"weights", "gamma[channels] = 0.1, no_decay; join[1] = 1"}, {"join", "x + gamma * join * f"}});
  for (const char* line :
       {"//   weights = gamma[channels] = 0.1, no_decay; join[1] = 1\n",
        "  const Term gamma = join.weight(\"gamma\", Shape::channels(), 0.1, {.group = Group::no_decay});\n",
        "  const Term join_ = join.weight(\"join\", {1.0}, 1.0);\n", "  join.branch = gamma * join_ * f;\n",
        "REWIRE_PLUGIN(\"mine\", \"0.1.0\", "})
    CHECK_THAT(source, REWIRE_CATCH_CONTAINS(line));
}

}  // namespace
}  // namespace rewire::test
