#include "tests/support/same_module.h"

#include <algorithm>
#include <bit>
#include <map>

namespace rewire::testing {

using namespace rewire::ir;

namespace {

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

bool same_attribute(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  if (const auto* x = std::get_if<double>(&a)) return same_bits(*x, std::get<double>(b));
  if (const auto* x = std::get_if<Doubles>(&a)) {
    const auto& y = std::get<Doubles>(b);
    return std::equal(x->begin(), x->end(), y.begin(), y.end(), same_bits);
  }
  return a == b;
}

bool same_attributes(const Attributes& a, const Attributes& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && same_attribute(x.second, y.second);
  });
}

bool same_parameter(const Parameter& a, const Parameter& b) {
  return a.name == b.name && a.type == b.type && a.init == b.init && a.trainable == b.trainable &&
         a.decay == b.decay && a.role == b.role && a.site == b.site && a.block == b.block &&
         a.layer == b.layer && a.average_of == b.average_of;
}

class FunctionComparison {
 public:
  FunctionComparison(const Function& a, const Function& b) : a_(a), b_(b) {}

  bool equal() {
    if (a_.name != b_.name || a_.arguments.size() != b_.arguments.size() ||
        a_.body.size() != b_.body.size() || a_.results.size() != b_.results.size()) {
      return false;
    }
    for (std::size_t i = 0; i < a_.arguments.size(); ++i) {
      if (a_.arguments[i].name != b_.arguments[i].name) return false;
      if (!define(a_.arguments[i].value, b_.arguments[i].value)) return false;
    }
    for (std::size_t i = 0; i < a_.body.size(); ++i) {
      if (!same_op(a_.body[i], b_.body[i])) return false;
    }
    for (std::size_t i = 0; i < a_.results.size(); ++i) {
      if (a_.results[i].name != b_.results[i].name) return false;
      if (!same_value(a_.results[i].value, b_.results[i].value)) return false;
    }
    return true;
  }

 private:
  bool define(Value x, Value y) {
    partners_[x] = y;
    return a_.type(x) == b_.type(y);
  }
  bool same_value(Value x, Value y) const { return partners_.contains(x) && partners_.at(x) == y; }

  bool same_op(const Op& x, const Op& y) {
    const auto same = [this](Value u, Value v) { return same_value(u, v); };
    if (x.code != y.code || x.location != y.location || !same_attributes(x.attributes, y.attributes) ||
        !std::equal(x.operands.begin(), x.operands.end(), y.operands.begin(), y.operands.end(), same) ||
        x.results.size() != y.results.size()) {
      return false;
    }
    for (std::size_t i = 0; i < x.results.size(); ++i) {
      if (!define(x.results[i], y.results[i])) return false;
    }
    return true;
  }

  const Function& a_;
  const Function& b_;
  std::map<Value, Value> partners_;
};

}  // namespace

bool same_module(const Module& a, const Module& b) {
  const auto same_function = [](const Function& x, const Function& y) {
    return FunctionComparison(x, y).equal();
  };
  return a.name == b.name && same_attributes(a.attributes, b.attributes) &&
         std::equal(a.parameters.begin(), a.parameters.end(), b.parameters.begin(), b.parameters.end(),
                    same_parameter) &&
         std::equal(a.functions.begin(), a.functions.end(), b.functions.begin(), b.functions.end(),
                    same_function);
}

}  // namespace rewire::testing
