// Texts in SSA form, aligned: what differs is found, and nothing else, whatever the values are numbered.
#include <algorithm>
#include <random>

#include "runtime/diff/align.h"
#include "tests/support/catch.h"

namespace rewire::runtime {
namespace {

std::vector<DiffLine> lines_at(const std::vector<std::string>& texts, const std::string& at = "") {
  std::vector<DiffLine> lines;
  for (const std::string& text : texts) lines.push_back({text, at});
  return lines;
}

/// "-TEXT" and "+TEXT" of what changed.
std::vector<std::string> changes(const std::vector<DiffLine>& a, const std::vector<DiffLine>& b) {
  std::vector<std::string> texts;
  for (const EditLine& line : align_lines(a, b)) {
    if (line.sign != ' ') texts.push_back(line.sign + line.text);
  }
  return texts;
}

using Texts = std::vector<std::string>;

const Texts kPlain = {"%0 = param {name = \"w\"} : f32[4]", "%1 = mul %x, %0 : f32[4]",
                      "%2 = exp %1 : f32[4]", "%3 = add %2, %x : f32[4]", "return y = %3"};

TEST_CASE("A text does not differ from itself, nor from itself with other numbers") {
  CHECK(changes(lines_at(kPlain), lines_at(kPlain)).empty());
  CHECK(changes({}, {}).empty());
  const Texts renumbered = {"%7 = param {name = \"w\"} : f32[4]", "%5 = mul %x, %7 : f32[4]",
                            "%6 = exp %5 : f32[4]", "%1 = add %6, %x : f32[4]", "return y = %1"};
  CHECK(changes(lines_at(kPlain), lines_at(renumbered)).empty());
}

TEST_CASE("An op that one text has more changes itself and who reads its result") {
  const Texts longer = {"%0 = param {name = \"w\"} : f32[4]",
                        "%1 = mul %x, %0 : f32[4]",
                        "%2 = neg %1 : f32[4]",
                        "%3 = exp %2 : f32[4]",
                        "%4 = add %3, %x : f32[4]",
                        "return y = %4"};
  CHECK(changes(lines_at(kPlain), lines_at(longer)) ==
        Texts{"-%2 = exp %1 : f32[4]", "+%2' = neg %1 : f32[4]", "+%2 = exp %2' : f32[4]"});
  CHECK(changes(lines_at(longer), lines_at(kPlain)) ==
        Texts{"-%2 = neg %1 : f32[4]", "-%3 = exp %2 : f32[4]", "+%3 = exp %1 : f32[4]"});
}

TEST_CASE("An op of other attributes or another type is still that op to who reads it") {
  Texts other = kPlain;
  other[2] = "%2 = exp %1 {fast = true} : f32[4]";
  CHECK(changes(lines_at(kPlain), lines_at(other)) ==
        Texts{"-%2 = exp %1 : f32[4]", "+%2 = exp %1 {fast = true} : f32[4]"});
}

TEST_CASE("Operands that change places are a difference, and so is another result") {
  Texts other = kPlain;
  other[3] = "%3 = add %x, %2 : f32[4]";
  CHECK(changes(lines_at(kPlain), lines_at(other)) ==
        Texts{"-%3 = add %2, %x : f32[4]", "+%3 = add %x, %2 : f32[4]"});
  other = kPlain;
  other[4] = "return y = %2";
  CHECK(changes(lines_at(kPlain), lines_at(other)) == Texts{"-return y = %3", "+return y = %2"});
}

TEST_CASE("Text in quotes is no value") {
  const Texts a = {"%0 = param {name = \"50 % = %3\"} : f32[4]"},
              b = {"%1 = param {name = \"50 % = %4\"} : f32[4]"};
  CHECK(changes(lines_at(a), lines_at(a)).empty());
  CHECK(changes(lines_at(a), lines_at(b)).size() == 2);
}

TEST_CASE("Hunks hold what changed with the lines around it, and know what is the same in another block") {
  std::vector<DiffLine> a, b;
  const auto both = [&](const std::string& text, const std::string& at) {
    a.push_back({text, at});
    b.push_back({text, at});
  };
  for (int block = 0; block < 3; ++block) {
    const std::string at = "blocks." + std::to_string(block) + ".attn";
    for (int i = 0; i < 6; ++i) both("%" + std::to_string(block * 10 + i) + " = exp %x : f32[4]", at);
    a.push_back(
        {"%" + std::to_string(block * 10 + 6) + " = neg %" + std::to_string(block * 10) + " : f32[4]", at});
  }
  const std::vector<Hunk> hunks = hunks_of(align_lines(a, b), 2);
  REQUIRE(hunks.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(hunks[i].like == 0);
    CHECK(hunks[i].at == "blocks." + std::to_string(i) + ".attn");
    CHECK(hunks[i].lines.size() == (i < 2 ? 5 : 3));
    CHECK(std::ranges::count(hunks[i].lines, '-', &EditLine::sign) == 1);
  }
}

/// Both texts stand in the alignment, in their order.
void check_holds_both(const std::vector<DiffLine>& a, const std::vector<DiffLine>& b) {
  const std::vector<EditLine> lines = align_lines(a, b);
  Texts of_a;
  std::size_t of_b = 0;
  for (const EditLine& line : lines) {
    if (line.sign != '+') of_a.push_back(line.text);
    if (line.sign != '-') ++of_b;
  }
  Texts wanted;
  for (const DiffLine& line : a) wanted.push_back(line.text);
  CHECK(of_a == wanted);
  CHECK(of_b == b.size());
}

TEST_CASE("Whatever is changed at random, both texts stand in the alignment") {
  std::mt19937 random(20);
  const auto line = [&](std::size_t i) {
    const std::string ops[] = {"exp", "neg", "sqrt"};
    const std::string operand = i == 0 ? "x" : std::to_string(random() % i);
    return "%" + std::to_string(i) + " = " + ops[random() % 3] + " %" + operand + " : f32[4]";
  };
  for (int round = 0; round < 200; ++round) {
    Texts a, b;
    const std::size_t count = random() % 40;
    for (std::size_t i = 0; i < count; ++i) a.push_back(line(i));
    b = a;
    for (unsigned edits = random() % 6; edits > 0; --edits) {
      const std::size_t at = b.empty() ? 0 : random() % b.size();
      if (random() % 2 == 0)
        b.insert(b.begin() + static_cast<std::ptrdiff_t>(at), line(at));
      else if (!b.empty())
        b.erase(b.begin() + static_cast<std::ptrdiff_t>(at));
    }
    CAPTURE(round);
    check_holds_both(lines_at(a), lines_at(b));
    check_holds_both(lines_at(b), lines_at(a));
  }
}

TEST_CASE("A name without the number of its block") {
  CHECK(of_any_block("blocks.3.attn.qkv") == "blocks.*.attn.qkv");
  CHECK(of_any_block("blocks_11_norm1_rows_64x50x192") == "blocks_*_norm1_rows_64x50x192");
  CHECK(of_any_block("norm1.weight") == "norm1.weight");
  CHECK(of_any_block("") == "");
}

}  // namespace
}  // namespace rewire::runtime
