#include "elements.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <stdexcept>

namespace formula {
namespace {

const std::map<std::string, double (*)(double)> kUnary = {
    {"abs", [](double x) { return std::fabs(x); }},
    {"cos", [](double x) { return std::cos(x); }},
    {"erf", [](double x) { return std::erf(x); }},
    {"exp", [](double x) { return std::exp(x); }},
    {"floor", [](double x) { return std::floor(x); }},
    {"gelu", [](double x) { return x / 2 * (1 + std::erf(x / std::numbers::sqrt2)); }},
    {"log", [](double x) { return std::log(x); }},
    {"neg", [](double x) { return -x; }},
    {"relu", [](double x) { return std::max(x, 0.0); }},
    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
    {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
    {"silu", [](double x) { return x / (1 + std::exp(-x)); }},
    {"sin", [](double x) { return std::sin(x); }},
    {"sqrt", [](double x) { return std::sqrt(x); }},
    {"stop_gradient", [](double x) { return x; }},
    {"tanh", [](double x) { return std::tanh(x); }}};

Elements each(const std::string& op, Elements x) {
  if (double* number = std::get_if<double>(&x)) return apply_unary(op, *number);
  for (double& number : std::get<std::vector<double>>(x)) number = apply_unary(op, number);
  return x;
}

/// All vectors of one formula have one length, that of the weight.
Elements each(const std::string& op, const Elements& a, const Elements& b) {
  const auto* as = std::get_if<std::vector<double>>(&a);
  const auto* bs = std::get_if<std::vector<double>>(&b);
  if (!as && !bs) return apply_binary(op, std::get<double>(a), std::get<double>(b));
  std::vector<double> result(as ? as->size() : bs->size());
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = apply_binary(op, as ? (*as)[i] : std::get<double>(a), bs ? (*bs)[i] : std::get<double>(b));
  return result;
}

Elements choose(const Elements& condition, const Elements& yes, const Elements& no) {
  if (const double* number = std::get_if<double>(&condition)) return *number != 0 ? yes : no;
  const auto at = [](const Elements& from, std::size_t i) {
    const auto* many = std::get_if<std::vector<double>>(&from);
    return many ? (*many)[i] : std::get<double>(from);
  };
  std::vector<double> result = std::get<std::vector<double>>(condition);
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = at(result[i] != 0 ? yes : no, i);
  return result;
}

Elements call(const Source& source, const Node& node, const ElementScope& scope) {
  const std::string& name = node.text;
  const auto argument = [&](std::size_t i) { return evaluate_elements(source, node.children[i], scope); };
  const auto takes = [&](std::size_t count, const std::string& form) {
    if (node.children.size() != count) fail(source, node.at, "expected " + form);
  };
  if (std::ranges::find(pointwise_functions(), name) != pointwise_functions().end()) {
    takes(1, name + "(x)");
    return each(name, argument(0));
  }
  if (name == "maximum" || name == "minimum") {
    takes(2, name + "(a, b)");
    return each(name, argument(0), argument(1));
  }
  if (name == "normal" || name == "uniform") {
    takes(0, name + "() here: multiply and add for another width");
    return scope.draw(source, node);
  }
  std::vector<std::string> all = pointwise_functions();
  all.insert(all.end(), {"maximum", "minimum", "normal", "uniform"});
  fail(source, node.at,
       "there is no function '" + name + "' of a weight's numbers" + did_you_mean(name, all));
}

}  // namespace

double apply_unary(const std::string& op, double x) {
  return kUnary.at(op)(x);
}

double apply_binary(const std::string& op, double a, double b) {
  if (op == "add") return a + b;
  if (op == "sub") return a - b;
  if (op == "mul") return a * b;
  if (op == "div") return a / b;
  if (op == "pow") return std::pow(a, b);
  if (op == "maximum") return std::max(a, b);
  if (op == "minimum") return std::min(a, b);
  if (op == "lt") return a < b;
  if (op == "le") return a <= b;
  if (op == "gt") return a > b;
  if (op == "ge") return a >= b;
  if (op == "eq") return a == b;
  if (op == "ne") return a != b;
  throw std::out_of_range(op);
}

const std::vector<std::string>& pointwise_functions() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, function] : kUnary)
      if (name != "neg") all.push_back(name);
    return all;
  }();
  return names;
}

Elements evaluate_elements(const Source& source, const Node& node, const ElementScope& scope) {
  const auto child = [&](std::size_t i) { return evaluate_elements(source, node.children[i], scope); };
  switch (node.kind) {
    case Node::Kind::number:
      return node.number;
    case Node::Kind::index:
      fail(source, node.at, "the elements of a weight cannot be indexed");
    case Node::Kind::name: {
      if (std::optional<Elements> found = scope.name(node.text)) return *std::move(found);
      fail(source, node.at,
           "the numbers of a weight cannot read '" + node.text + "'" + did_you_mean(node.text, scope.names));
    }
    case Node::Kind::call:
      return call(source, node, scope);
    case Node::Kind::negation:
      return each("neg", child(0));
    case Node::Kind::power:
      return each("pow", child(0), child(1));
    case Node::Kind::comparison:
      return each(node.text, child(0), child(1));
    case Node::Kind::choice:
      return choose(child(0), child(1), child(2));
    case Node::Kind::sum:
    case Node::Kind::product:
      break;
  }
  Elements result = child(0);
  for (std::size_t i = 1; i < node.children.size(); ++i) {
    const bool adds = node.kind == Node::Kind::sum;
    const char* op = adds ? (node.text[i] == '+' ? "add" : "sub") : (node.text[i] == '*' ? "mul" : "div");
    result = each(op, result, child(i));
  }
  return result;
}

}  // namespace formula
