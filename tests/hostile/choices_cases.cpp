// Choices: a file that --choices names, and a run's choices.json.
#include <nlohmann/json.hpp>

#include "tests/hostile/cases.h"
#include "tests/hostile/families.h"
#include "tests/hostile/good.h"

namespace rewire::test {
namespace {

using Json = nlohmann::ordered_json;

/// Faults of the list itself, each as a whole file: {"choices": LIST}.
void add_lists(Table& table, const std::string& file, const Json& whole, const Expectation& expected) {
  const Json good = whole.at("choices").at(0);
  const auto list = [&](const std::string& what, Json choices) {
    Json changed = whole;
    changed["choices"] = std::move(choices);
    table.row(file + ": " + what, {put(file, changed.dump(2, ' ', false, Json::error_handler_t::replace))},
              expected);
  };
  const auto one = [&](const std::string& what, const char* key, Json value) {
    Json changed = good;
    changed[key] = std::move(value);
    list(what, Json::array({changed}));
  };
  list("a choice twice", Json::array({good, good}));
  list("a choice of no kind", Json::array({{{"key", "nothing 1x2"}, {"taken", "dense"}, {"by", "timing"}}}));
  one("a key that is empty", "key", "");
  one("a key that turns a terminal", "key", "\x1b[2J\u202e");
  one("a key of a megabyte", "key", std::string(1 << 20, 'k'));
  one("an answer that there is not", "taken", "nothing");
  one("an answer that is empty", "taken", "");
  one("an answer that turns a terminal", "taken", "\x1b]0;x\x07");
  one("a judge that there is not", "by", "chance");
  one("times that are a list", "ms", Json::array({1}));
  one("a time that is a text", "ms", {{"dense", "fast"}});
  one("a time that is no number", "ms", {{"dense", nullptr}});
  one("a time that is negative", "ms", {{"dense", -1.0}});
  one("a time beyond bounds", "ms", {{"dense", 1e308}});
  one("a key that no choice has", "colour", "red");
}

}  // namespace

void add_choices_cases(std::vector<Case>& cases) {
  const std::string text = good().bytes("mixed/choices.json");
  const Json whole = Json::parse(text);
  {
    const std::string file = "choices.json";
    Table table(
        cases, "choices",
        {"dump", good().file("mixer.rir"), "--stage", "fused", "--quiet", "--choices", "@/choices.json"},
        {put(file, text)});
    const Expectation no = refused("@/choices.json");
    table.row("sound", {}, fine());
    table.row("the list alone", {put(file, whole.at("choices").dump())}, fine());
    add_odd_files(table, file, Origin::command_line, no);
    add_lost_links(table, file, no);
    add_lists(table, file, whole, no);
    add_wrong_json(table, file, {{"choices", whole.at("choices")}}, no);
    add_cuts(table, file, text.size() - 1, 8, no);
  }
  {
    const std::string file = "run/choices.json";
    Table table(cases, "run's choices", {"train", "--resume", "@/run", "--quiet"},
                {copy(good().file("mixed"), "run")});
    const Expectation no = refused("@/run/choices.json");
    table.row("sound", {}, fine());
    add_odd_files(table, file, Origin::folder, no);
    add_lists(table, file, whole, no);
    add_no_json(table, file, text, no);
    add_wrong_json(table, file, whole, no);
    add_cuts(table, file, text.size() - 1, 8, no);
    for (const char* later :
         {"[]", "{}", "1", "null", "\"x\"", "[1]", "[[]]", "[{}]", "[null]", "[{\"from_step\": -1}]",
          "[{\"from_step\": 1e300}]", "[{\"engine\": 1, \"from_step\": 1}]"}) {
      Json changed = whole;
      changed["later"] = Json::parse(later);
      table.row(std::string("later is ") + later, {put(file, changed.dump(2))}, no);
    }
    for (const char* kernels :
         {"[]", "1", "{\"a\": 1}", "{\"../../x\": \"00\"}", "{\"\": \"00\"}", "{\"a\\u0000b\": \"00\"}"}) {
      Json changed = whole;
      changed["kernels"] = Json::parse(kernels);
      table.row(std::string("kernels are ") + kernels, {put(file, changed.dump(2))}, refused("@/run/"));
    }
  }
}

}  // namespace rewire::test
