#include "codegen/fuse/chain.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>

#include "codegen/fuse/prepare.h"
#include "codegen/fuse/storage.h"
#include "ir/opcodes.h"
#include "ir/ops/composite_parts.h"

namespace rewire::codegen {
namespace {

using ir::Function;
using ir::Op;
using ir::Opcode;
using ir::Value;

constexpr std::size_t kMostOps = 48;

bool is_analytic(const Function& function, const Op& op) {
  switch (op.code) {
    case Opcode::neg:
    case Opcode::exp:
    case Opcode::tanh:
    case Opcode::sigmoid:
    case Opcode::add:
    case Opcode::sub:
    case Opcode::mul:
    case Opcode::div:
      return true;
    case Opcode::cast:
      return ir::is_float(function.type(op.operands[0]).dtype) &&
             ir::is_float(function.type(op.results[0]).dtype);
    default:
      return false;
  }
}

double apply(Opcode code, double a, double b) {
  switch (code) {
    case Opcode::neg:
      return -a;
    case Opcode::exp:
      return std::exp(a);
    case Opcode::tanh:
      return std::tanh(a);
    case Opcode::sigmoid:
      return 1 / (1 + std::exp(-a));
    case Opcode::add:
      return a + b;
    case Opcode::sub:
      return a - b;
    case Opcode::mul:
      return a * b;
    case Opcode::div:
      return a / b;
    default:
      return a;  // a cast
  }
}

/// Returns the value of a constant whose elements all have the same value, seen through views; nullopt for
/// others.
std::optional<double> constant_of(const Function& function, const std::vector<std::int32_t>& definitions,
                                  Value value) {
  std::int32_t at = definitions[static_cast<std::size_t>(value.id)];
  while (at >= 0 && is_view(function.body[static_cast<std::size_t>(at)].code)) {
    value = function.body[static_cast<std::size_t>(at)].operands[0];
    at = definitions[static_cast<std::size_t>(value.id)];
  }
  if (at < 0 || function.body[static_cast<std::size_t>(at)].code != Opcode::constant) return std::nullopt;
  return splat_value(function.body[static_cast<std::size_t>(at)]);
}

class Tracing {
 public:
  Tracing(const Function& function, const std::vector<std::int32_t>& definitions,
          const std::set<std::int32_t>& stops, const ir::Shape& shape)
      : function_(function), definitions_(definitions), stops_(stops), shape_(shape) {}

  bool visit(Value value) {
    if (constant_of(function_, definitions_, value) || !seen_.insert(value.id).second) return true;
    if (function_.type(value).shape != shape_) return false;
    const std::int32_t at = definitions_[static_cast<std::size_t>(value.id)];
    if (at < 0 || stops_.contains(value.id) ||
        !is_analytic(function_, function_.body[static_cast<std::size_t>(at)])) {
      chain_.sources.push_back(value);
      return true;
    }
    chain_.ops.push_back(at);
    if (chain_.ops.size() > kMostOps) return false;
    const std::vector<Value>& operands = function_.body[static_cast<std::size_t>(at)].operands;
    return std::all_of(operands.begin(), operands.end(), [&](Value operand) { return visit(operand); });
  }

  Chain take() {
    std::sort(chain_.ops.begin(), chain_.ops.end());
    return std::move(chain_);
  }

 private:
  const Function& function_;
  const std::vector<std::int32_t>& definitions_;
  const std::set<std::int32_t>& stops_;
  const ir::Shape& shape_;
  std::set<std::int32_t> seen_;
  Chain chain_;
};

/// Returns what a chain computes at a point. `values`: the values of the sources, by Value::id.
double value_at(const Function& function, const std::vector<std::int32_t>& definitions, const Chain& chain,
                Value value, std::map<std::int32_t, double> values) {
  const auto read = [&](Value operand) {
    const auto known = values.find(operand.id);
    return known != values.end() ? known->second : constant_of(function, definitions, operand).value();
  };
  for (const int index : chain.ops) {
    const Op& op = function.body[static_cast<std::size_t>(index)];
    values[op.results[0].id] =
        apply(op.code, read(op.operands[0]), op.operands.size() > 1 ? read(op.operands[1]) : 0);
  }
  return values.at(value.id);
}

/// Returns points of both signs: dense where the two forms of GELU differ, and some far out.
std::vector<double> points() {
  std::vector<double> points = {-1e3, -37, -12, 12, 37, 1e3};
  for (int i = -48; i <= 48; ++i) points.push_back(i * 0.17);
  return points;
}

constexpr double kAgreement = 1e-6;

/// The argument of tanh in GELU, and its derivative.
double inner(double x) {
  return std::numbers::sqrt2 * std::numbers::inv_sqrtpi * (x + ir::kGeluCubic * x * x * x);
}
double inner_slope(double x) {
  return std::numbers::sqrt2 * std::numbers::inv_sqrtpi * (1 + 3 * ir::kGeluCubic * x * x);
}

}  // namespace

std::optional<Chain> chain_to(const Function& function, const std::vector<std::int32_t>& definitions,
                              Value value, const std::set<std::int32_t>& stops) {
  Tracing tracing(function, definitions, stops, function.type(value).shape);
  if (stops.contains(value.id) || !tracing.visit(value)) return std::nullopt;
  Chain chain = tracing.take();
  return chain.ops.empty() ? std::nullopt : std::optional(std::move(chain));
}

bool is_gelu_by_tanh(const Function& function, const std::vector<std::int32_t>& definitions,
                     const Chain& chain, Value value) {
  if (chain.sources.size() != 1) return false;
  const std::vector<double> sampled = points();
  return std::all_of(sampled.begin(), sampled.end(), [&](double x) {
    const double expected = x * (1 + std::tanh(inner(x))) / 2;
    const double found = value_at(function, definitions, chain, value, {{chain.sources[0].id, x}});
    return std::abs(found - expected) <= kAgreement * (1 + std::abs(x));
  });
}

bool is_gelu_gradient_by_tanh(const Function& function, const std::vector<std::int32_t>& definitions,
                              const Chain& chain, Value value, Value x, Value g) {
  const std::vector<double> sampled = points();
  for (std::size_t i = 0; i < sampled.size(); ++i) {
    const double at = sampled[i], t = std::tanh(inner(at));
    const double slope = (1 + t + at * (1 - t * t) * inner_slope(at)) / 2;
    for (const double factor : {1.0, -2.5, 0.3 + static_cast<double>(i % 7)}) {
      const double found = value_at(function, definitions, chain, value, {{x.id, at}, {g.id, factor}});
      if (!(std::abs(found - factor * slope) <= kAgreement * (1 + std::abs(factor)))) return false;
    }
  }
  return true;
}

}  // namespace rewire::codegen
