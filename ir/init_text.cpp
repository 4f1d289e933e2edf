#include "ir/init_text.h"

#include <array>
#include <charconv>

#include "ir/error.h"

namespace rewire::ir {
namespace {

struct InitRow {
  InitKind kind;
  std::string_view name;
  int numbers;
};
constexpr std::array<InitRow, 7> kInits = {{{InitKind::zeros, "zeros", 0},
                                            {InitKind::ones, "ones", 0},
                                            {InitKind::constant, "constant", 1},
                                            {InitKind::normal, "normal", 1},
                                            {InitKind::trunc_normal, "trunc_normal", 2},
                                            {InitKind::uniform, "uniform", 2},
                                            {InitKind::xavier_uniform, "xavier_uniform", 0}}};

[[noreturn]] void refuse(std::string_view text) {
  user_error(
      "'{}' is no init; there are zeros, ones, constant(value), normal(std), trunc_normal(std, cut), "
      "uniform(low, high), xavier_uniform",
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
  if (row.numbers == 1) return fmt::format("{}({})", row.name, spell_double(init.a));
  return fmt::format("{}({}, {})", row.name, spell_double(init.a), spell_double(init.b));
}

Init init_from_string(std::string_view text) {
  const std::size_t open = text.find('(');
  const std::string_view name = text.substr(0, open);
  for (const InitRow& row : kInits) {
    if (row.name != name) continue;
    Init init;
    init.kind = row.kind;
    if (row.numbers == 0) {
      if (open != std::string_view::npos) refuse(text);
      return init;
    }
    if (open == std::string_view::npos || text.back() != ')') refuse(text);
    std::string_view rest = text.substr(open + 1, text.size() - open - 2);
    for (int i = 0; i < row.numbers; ++i) {
      const std::size_t comma = i + 1 < row.numbers ? rest.find(',') : rest.size();
      if (comma == std::string_view::npos) refuse(text);
      const std::string_view number = trim(rest.substr(0, comma));
      double& target = i == 0 ? init.a : init.b;
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), target);
      if (error != std::errc() || end != number.data() + number.size()) refuse(text);
      rest = rest.substr(std::min(comma + 1, rest.size()));
    }
    return init;
  }
  refuse(text);
}

}  // namespace rewire::ir
