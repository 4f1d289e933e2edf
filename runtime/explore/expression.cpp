#include "runtime/explore/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace rewire::runtime {
namespace {

constexpr std::pair<std::string_view, std::string_view> kGreek[] = {
    {"alpha", "α"}, {"beta", "β"},  {"gamma", "γ"},  {"delta", "δ"}, {"epsilon", "ε"},
    {"eta", "η"},   {"kappa", "κ"}, {"lambda", "λ"}, {"mu", "μ"},    {"rho", "ρ"},
    {"sigma", "σ"}, {"tau", "τ"},   {"theta", "θ"},  {"phi", "φ"},   {"omega", "ω"}};

std::string letter_of(const std::string& name) {
  const auto* found = std::ranges::find(kGreek, name, &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(kGreek) ? name : std::string(found->second);
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string element(std::string_view tag, std::string_view content) {
  return fmt::format("<{0}>{1}</{0}>", tag, content);
}

std::string operator_element(std::string_view sign) {
  return element("mo", sign);
}

Expression symbol_expression(const std::string& name) {
  const std::size_t cut = name.find('_');
  const std::string letter = letter_of(name.substr(0, cut));
  if (cut == std::string::npos) return {{letter, kAtom}, {element("mi", escaped(letter)), kAtom}};
  const std::string index = name.substr(cut + 1);
  return {{letter + "_" + index, kAtom},
          {element("msub", element("mi", escaped(letter)) + element("mtext", escaped(index))), kAtom}};
}

Expression number_expression(double value) {
  const std::string text = fmt::format("{:.6g}", value);
  const Binding binding = value < 0 ? kSum : kAtom;
  const std::size_t exponent = text.find('e');
  if (exponent == std::string::npos) return {{text, binding}, {element("mn", text), binding}};
  const int tens = std::stoi(text.substr(exponent + 1));
  const std::string sign = tens < 0 ? operator_element("−") : "",
                    power = element(
                        "msup", element("mn", "10") +
                                    element("mrow", sign + element("mn", std::to_string(std::abs(tens)))));
  const std::string mantissa = text.substr(0, exponent);
  return {{text, binding},
          {mantissa == "1" ? power : element("mrow", element("mn", mantissa) + operator_element("·") + power),
           binding}};
}

std::string math_in(const Expression& e, Binding outer) {
  if (e.math.binding >= outer) return e.math.text;
  return element("mrow", operator_element("(") + e.math.text + operator_element(")"));
}

Expression infix(const Expression& a, std::string_view sign, std::string_view math_sign, const Expression& b,
                 Binding binding, Binding right) {
  return {{a.text.within(binding) + std::string(sign) + b.text.within(right), binding},
          {element("mrow", math_in(a, binding) + operator_element(math_sign) + math_in(b, right)), binding}};
}

Expression fraction(const Expression& a, const Expression& b) {
  return {{a.text.within(kProduct) + " / " + b.text.within(kPower), kQuotient},
          {element("mfrac", a.math.text + b.math.text), kPower}};
}

Expression square(const Expression& a) {
  return {{a.text.within(kAtom) + "²", kPower},
          {element("msup", math_in(a, kAtom) + element("mn", "2")), kPower}};
}

Expression root(const Expression& a) {
  return {{"√" + (a.text.binding == kAtom ? a.text.text : "(" + a.text.text + ")"), kPower},
          {element("msqrt", a.math.text), kAtom}};
}

Expression called(const std::string& function, const std::vector<Expression>& arguments) {
  std::string text = function + "(", math = element("mi", escaped(function)) + operator_element("(");
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (i > 0) {
      text += ", ";
      math += operator_element(",");
    }
    text += arguments[i].text.text;
    math += arguments[i].math.text;
  }
  return {{text + ")", kAtom}, {element("mrow", math + operator_element(")")), kAtom}};
}

Expression between(std::string_view open, const Expression& a, const Expression* b, std::string_view close) {
  std::string text = std::string(open) + a.text.text, math = operator_element(open) + a.math.text;
  if (b != nullptr) {
    text += ", " + b->text.text;
    math += operator_element(",") + b->math.text;
  }
  return {{text + std::string(close), kAtom}, {element("mrow", math + operator_element(close)), kAtom}};
}

Expression indexed(const Expression& a, const std::string& index) {
  return {{a.text.within(kAtom) + "[" + index + "]", kAtom},
          {element("msub", math_in(a, kAtom) + element("mtext", "[" + index + "]")), kAtom}};
}

}  // namespace rewire::runtime
