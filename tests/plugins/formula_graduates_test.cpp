// A formula and the C++ source that it becomes: the same IR and the same initial weights, on tokens and on maps.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "formula/cpp.h"
#include "formula/formulas.h"
#include "ir/error.h"
#include "ir/text.h"
#include "models/trial.h"
#include "tests/plugins/formula_graduates.h"
#include "tests/plugins/strategy.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

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

TEST_CASE("The graduates have every name, function and parameter of the language") {
  std::set<std::string> read, given;
  const auto note = [&](const auto& self, const formula::Node& node) -> void {
    read.insert(node.text);
    for (const formula::Node& child : node.children) self(self, child);
  };
  for (const FormulaValues& values : graduates()) {
    const formula::Formulas formulas([&](const std::string& key) {
      const auto found = std::ranges::find(values, key, &FormulaValues::value_type::first);
      return found != values.end() ? found->second : key == "at" ? "all" : "";
    });
    for (const auto& [key, value] : values) given.insert(key);
    for (const auto& [name, part] : formulas.lets) note(note, part.node);
    for (const auto& [key, part] : formulas.slots) note(note, part.node);
    for (const auto* parts : {&formulas.reports, &formulas.inits, &formulas.afters})
      for (const formula::NamedPart& named : *parts) note(note, named.part.node);
    for (const formula::WeightEntry& weight : formulas.weights) {
      note(note, weight.value);
      for (const formula::Node& extent : weight.extents) note(note, extent);
    }
  }
  for (const auto* names : {&formula::functions(), &formula::join_names(), &formula::domains()})
    for (const std::string& name : *names) {
      CAPTURE(name);
      CHECK(read.contains(name));
    }
  for (const char* key :
       {"join", "shortcut", "branch", "sum", "change_shortcut", "change_branch", "change_sum", "input",
        "norm_input", "exit", "let", "weights", "report", "init", "after", "at"}) {
    CAPTURE(key);
    CHECK(given.contains(key));
    CHECK(formula::is_parameter(key));
  }
}

TEST_CASE("Formulas in C++ that make no sense are refused, and end no process") {
  const std::pair<const char*, const char*> faults[] = {
      {"other_weight", "'a' is a weight of other Formulas"},
      {"after_stream", "the value and 'a' differ in size"},
      {"after_nothing", "after sets 'b', which is no weight of one shape of these formulas"},
      {"shared_list", "the weight 'a' is a list: it belongs to one join and cannot be per_block"},
      {"moved", "a term was used after it was moved from"},
      {"infinite", "this is not a finite number here"},
      {"list_of_list", "a list"},
  };
  for (const auto& [fault, message] : faults) {
    CAPTURE(fault);
    const std::string spec = fmt::format("{}:fault={}", REWIRE_MISUSE, fault);
    CHECK_THAT(message_of<UserError>([&] { rewritten(models::trial_networks()[0].module, {spec}); }),
               REWIRE_CATCH_CONTAINS(message));
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
