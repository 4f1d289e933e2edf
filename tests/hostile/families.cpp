#include "tests/hostile/families.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace rewire::test {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kDeep = 200'000;

/// `count` whole numbers from `from` up to below `to`.
std::vector<std::size_t> spread(std::size_t from, std::size_t to, int count) {
  std::vector<std::size_t> numbers;
  for (int i = 0; i < count; ++i) {
    const std::size_t number =
        from + (to - from) * static_cast<std::size_t>(i) / static_cast<std::size_t>(count);
    if (numbers.empty() || numbers.back() != number) numbers.push_back(number);
  }
  return numbers;
}

std::string nested(char open, char close) {
  return std::string(kDeep, open) + std::string(kDeep, close);
}

}  // namespace

void add_lost_links(Table& table, const std::string& name, const Expectation& expected) {
  table.row(name + " is a link to itself", {become_link(name, "./" + name)}, expected);
  table.row(name + " is a link to nothing", {become_link(name, "/nowhere/at/all")}, expected);
}

void add_odd_files(Table& table, const std::string& name, Origin origin, const Expectation& expected) {
  table.row("a folder in place of " + name, {become_folder(name)}, expected);
  table.row(name + " is a device that never ends", {become_link(name, "/dev/zero")}, expected);
  table.row(name + " is a device that is empty", {become_link(name, "/dev/null")}, expected);
  table.row(name + " has a terabyte", {become_huge(name)}, expected);
  table.row(name + " may not be read", {forbid(name)}, expected);
  table.row(name + " is empty", {put(name, "")}, expected);
  if (origin == Origin::folder)
    table.row(name + " is a pipe that nobody writes to", {become_fifo(name)}, expected);
}

void add_cuts(Table& table, const std::string& name, std::size_t bytes, int parts,
              const Expectation& expected) {
  for (const std::size_t length : spread(0, bytes - 1, parts - 1))
    table.row(fmt::format("{} cut to {} bytes", name, length), {cut(name, length)}, expected);
  table.row(fmt::format("{} cut by one byte", name), {cut(name, bytes - 1)}, expected);
}

void add_flips(Table& table, const std::string& name, std::size_t from, std::size_t to, int parts,
               const Expectation& expected) {
  int bit = 0;
  for (const std::size_t byte : spread(from, to, parts)) {
    table.row(fmt::format("{}: bit {} of byte {} flipped", name, bit, byte), {flip(name, byte, bit)},
              expected);
    bit = (bit + 3) % 8;
  }
}

void add_wrong_json(Table& table, const std::string& name, const Json& good, const Expectation& expected) {
  const Json wrong[] = {nullptr, true, -1, 1e300, 9223372036854775807, "text", Json::array(), Json::object()};
  // Every place in it: the scalars, and what holds them.
  std::vector<Json::json_pointer> places;
  const auto visit = [&](const auto& self, const Json& json, const Json::json_pointer& at) -> void {
    if (!at.empty()) places.push_back(at);
    if (json.is_object())
      for (const auto& [key, value] : json.items()) self(self, value, at / key);
    if (json.is_array() && !json.empty()) self(self, json.front(), at / 0);
  };
  visit(visit, good, Json::json_pointer());
  for (const Json::json_pointer& place : places) {
    const Json& value = good.at(place);
    for (const Json& other : wrong) {
      if (other.type() == value.type() || (other.is_number() && value.is_number())) continue;
      Json changed = good;
      changed.at(place) = other;
      table.row(fmt::format("{}: {} is {}", name, place.to_string(), other.dump()),
                {put(name, changed.dump(2))}, expected);
    }
  }
}

void add_no_json(Table& table, const std::string& name, const std::string& good,
                 const Expectation& expected) {
  const auto text = [&](const std::string& what, std::string bytes) {
    table.row(fmt::format("{} {}", name, what), {put(name, std::move(bytes))}, expected);
  };
  text("is a number", "1");
  text("is null", "null");
  text("is a list", "[]");
  text("is an empty object", "{}");
  text("stands twice in itself", good + good);
  text("begins with a byte order mark of UTF-16", "\xff\xfe" + good);
  text("is no UTF-8", "{\"\xc3\x28\": \"\xff\"}");
  text("ends in the middle of a string", good.substr(0, good.rfind('"')));
  text("has a comment", good + "// more");
  text("is lists, 200,000 deep", nested('[', ']'));
  text("is open lists, 200,000 deep", std::string(kDeep, '['));
  std::string objects;
  for (std::size_t i = 0; i < kDeep; ++i) objects += "{\"a\":";
  text("is objects, 200,000 deep", objects + "1" + std::string(kDeep, '}'));
  text("has 64 MB of blanks", good + std::string(std::size_t{64} << 20, ' '));
  text("has a key of a megabyte", "{\"" + std::string(std::size_t{1} << 20, 'k') + "\": 1}");
}

}  // namespace rewire::test
