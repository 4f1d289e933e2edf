// JSON of others: limits, and messages that say where a value stands.
#include <nlohmann/json.hpp>

#include "ir/error.h"
#include "runtime/io/json_view.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::test {
namespace {

using runtime::JsonView;
using runtime::parse_json;
using Json = nlohmann::ordered_json;

std::string refusal(const std::string& text) {
  return message_of<UserError>([&] { parse_json(std::string_view(text), "F"); });
}

std::string nested(int levels) {
  const auto n = static_cast<std::size_t>(levels);
  return std::string(n, '[') + std::string(n, ']');
}

TEST_CASE("A document has limits of depth, and no key stands twice") {
  CHECK_NOTHROW(parse_json(nested(16), "F"));
  CHECK(refusal(nested(17)) == "F is not valid JSON: it is more than 16 levels deep");
  CHECK(refusal(nested(200'000)) == "F is not valid JSON: it is more than 16 levels deep");
  CHECK_NOTHROW(parse_json(R"({"a": {"b": 1}, "c": {"b": 2}})", "F"));
  CHECK(refusal(R"({"a": {"b": 1, "c": [{"b": 3}], "b": 2}})") ==
        "F is not valid JSON: 'b' appears twice in an object");
}

TEST_CASE("An object has a limit of keys, which are found one by one") {
  const auto object = [](int keys) {
    std::string text = "{";
    for (int i = 0; i < keys; ++i) text += (i == 0 ? "\"k" : ",\"k") + std::to_string(i) + "\":1";
    return text + "}";
  };
  CHECK_NOTHROW(parse_json(object(4096), "F"));
  CHECK(refusal("[" + object(4096) + "," + object(4097) + "]") ==
        "F is not a JSON file of Rewire: an object has more than 4096 keys");
  CHECK(refusal(object(1'000'000)) == "F is not a JSON file of Rewire: an object has more than 4096 keys");
}

TEST_CASE("What is no JSON is refused in one line") {
  for (const char* text : {"", "{", "[1,", "nul", "{\"a\" 1}", "[1e999]", "[-1e999]", "[NaN]", "\"\xff\"",
                           "[1] 2", "\"\x1b\"", "{\"a\": \"\\ud800\"}"}) {
    CAPTURE(text);
    const std::string message = refusal(text);
    CHECK(message.starts_with("F is not valid JSON: "));
    CHECK(message.find('\n') == std::string::npos);
  }
}

TEST_CASE("A value of another kind is refused where it stands") {
  const Json document = Json::parse(
      R"({"a": [{"b": 1}, {"b": "x"}], "n": -1, "f": 1.5, "big": 18446744073709551615, "no": null, "yes": true})");
  const JsonView view(document, "F");
  const auto message = [&](auto read) { return message_of<UserError>([&] { read(); }); };
  CHECK(view.at("a").items().at(1).at("b").text() == "x");
  CHECK(view.at("a").items().at(0).at("b").count() == 1);
  CHECK(view.at("f").number() == 1.5);
  CHECK_FALSE(view.find("none").has_value());
  CHECK(message([&] { view.at("none"); }) == "F has no \"none\"");
  CHECK(message([&] { view.at("a").at("b"); }) == "F: a is a list, not an object");
  CHECK(message([&] { view.at("a").items().at(1).at("c"); }) == "F: a[1] has no \"c\"");
  CHECK(message([&] { view.at("a").items().at(1).at("b").number(); }) == "F: a[1].b is text, not a number");
  CHECK(message([&] { view.at("a").items().at(0).at("b").text(); }) == "F: a[0].b is a number, not text");
  CHECK(message([&] { view.at("no").members(); }) == "F: no is null, not an object");
  CHECK(message([&] { view.at("yes").items(); }) == "F: yes is true or false, not a list");
  CHECK(message([&] { view.at("n").count(); }) ==
        "F: n is -1, not a whole number from 0 to 9223372036854775807");
  CHECK(message([&] { view.at("f").count(7); }) == "F: f is 1.5, not a whole number from 0 to 7");
  CHECK(message([&] { view.at("big").count(); }) ==
        "F: big is 18446744073709551615, not a whole number from 0 to 9223372036854775807");
  CHECK(message([&] { view.at("a").items().at(0).at("b").count(0); }) ==
        "F: a[0].b is 1, not a whole number from 0 to 0");
  CHECK(message([&] { view.at("a").items().at(0).only({"xyz", "bb"}); }) ==
        "F: a[0] has an unknown \"b\" (did you mean 'bb'?)");
  CHECK(message([&] { view.at("f").refuse("is odd"); }) == "F: f is odd");
}

TEST_CASE("An object of whole numbers may have any number of keys, and nothing else in it") {
  using Counts = std::vector<std::pair<std::string, std::int64_t>>;
  std::string text = "{";
  Counts wanted;
  for (int i = 0; i < 20000; ++i) {
    text += (i == 0 ? "\"" : ", \"") + std::to_string(i) + "\": " + std::to_string(7 * i);
    wanted.emplace_back(std::to_string(i), 7 * i);
  }
  CHECK(runtime::parse_json_counts(text + "}", "F") == wanted);
  CHECK(runtime::parse_json_counts("{}", "F").empty());
  const auto refused = [](std::string_view other) {
    return message_of<UserError>([&] { runtime::parse_json_counts(other, "F"); });
  };
  for (const char* const other : {"[]", "3", "[1]", "{\"a\": -1}", "{\"a\": 1.5}", "{\"a\": \"x\"}",
                                  "{\"a\": {}}", "{\"a\": [1]}", "{\"a\": null}"}) {
    CAPTURE(other);
    CHECK(refused(other) == "F is not an object of whole numbers");
  }
  CHECK(refused("{\"a\": 1, \"a\": 2}") == "F is not valid JSON: 'a' appears twice in an object");
  CHECK(refused("{\"a\": 1").starts_with("F is not valid JSON: "));
}

}  // namespace
}  // namespace rewire::test
