#include "ir/init_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>
#include <vector>

#include "ir/error.h"

namespace rewire::ir {
namespace {

struct InitRow {
  InitKind kind;
  std::string_view name;
  int numbers;  // -1: any number of them
};
constexpr std::array<InitRow, 11> kInits = {{{InitKind::zeros, "zeros", 0},
                                             {InitKind::ones, "ones", 0},
                                             {InitKind::constant, "constant", 1},
                                             {InitKind::normal, "normal", 1},
                                             {InitKind::trunc_normal, "trunc_normal", 2},
                                             {InitKind::uniform, "uniform", 2},
                                             {InitKind::xavier_uniform, "xavier_uniform", 0},
                                             {InitKind::values, "values", -1},
                                             {InitKind::orthonormal, "orthonormal", 0},
                                             {InitKind::sinusoid, "sinusoid", 0},
                                             {InitKind::sinusoid_2d, "sinusoid_2d", 1}}};

[[noreturn]] void refuse(std::string_view text) {
  user_error(
      "'{}' is not an init; choose from zeros, ones, constant(value), normal(std), trunc_normal(std, cut), "
      "uniform(low, high), xavier_uniform, values(number, …), orthonormal, sinusoid, sinusoid_2d(rows of 0)",
      text);
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

std::string spell_double(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string to_string(const Init& init) {
  const InitRow& row = kInits[static_cast<std::size_t>(init.kind)];
  if (row.numbers == 0) return std::string(row.name);
  std::vector<std::string> numbers;
  if (row.numbers < 0) {
    for (const double value : init.values) numbers.push_back(spell_double(value));
  } else {
    numbers.push_back(spell_double(init.a));
    if (row.numbers == 2) numbers.push_back(spell_double(init.b));
  }
  return fmt::format("{}({})", row.name, fmt::join(numbers, ", "));
}

Init init_from_string(std::string_view text) {
  const std::size_t open = text.find('(');
  const auto row = std::ranges::find(kInits, text.substr(0, open), &InitRow::name);
  if (row == kInits.end()) refuse(text);
  Init init;
  init.kind = row->kind;
  if (row->numbers == 0) {
    if (open != std::string_view::npos) refuse(text);
    return init;
  }
  if (open == std::string_view::npos || text.back() != ')') refuse(text);
  std::string_view rest = text.substr(open + 1, text.size() - open - 2);
  std::vector<double> numbers;
  for (bool more = true; more;) {
    const std::size_t comma = rest.find(',');
    const std::string_view number = trim(rest.substr(0, comma));
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), numbers.emplace_back());
    if (error != std::errc() || end != number.data() + number.size()) refuse(text);
    more = comma != std::string_view::npos;
    rest = more ? rest.substr(comma + 1) : "";
  }
  if (row->numbers < 0) {
    init.values = std::move(numbers);
    return init;
  }
  if (numbers.size() != static_cast<std::size_t>(row->numbers)) refuse(text);
  init.a = numbers[0];
  if (row->numbers == 2) init.b = numbers[1];
  return init;
}

}  // namespace rewire::ir
