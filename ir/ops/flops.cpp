#include "ir/ops/flops.h"

#include <cmath>

#include "ir/ops/op_info.h"

namespace rewire::ir {
namespace {

double elements(const Function& function, Value value) {
  return static_cast<double>(function.type(value).elements());
}

double extent(const Function& function, Value value, int from_the_end) {
  const Shape& shape = function.type(value).shape;
  return static_cast<double>(shape[shape.size() - static_cast<std::size_t>(from_the_end)]);
}

double multiply_adds_of(const Function& function, const Op& op) {
  switch (op.code) {
    case Opcode::matmul: {
      const bool transposed = op.attributes.has("transpose_a") && op.attributes.get_bool("transpose_a");
      return elements(function, op.results[0]) * extent(function, op.operands[0], transposed ? 2 : 1);
    }
    case Opcode::attention:  // query key^T, and the map times value
      return extent(function, op.operands[1], 2) *
             (elements(function, op.operands[0]) + elements(function, op.results[0]));
    case Opcode::circulant_matmul: {
      const bool transposed = op.attributes.has("transpose") && op.attributes.get_bool("transpose");
      const double lags = extent(function, op.operands[1], 1),
                   inputs = extent(function, op.operands[1], transposed ? 3 : 2);
      return elements(function, op.results[0]) * 2 * (std::log2(lags) + inputs);
    }
    default:
      return 0;
  }
}

}  // namespace

double multiply_adds(const Function& function) {
  double sum = 0;
  for (const Op& op : function.body) sum += multiply_adds_of(function, op);
  return sum;
}

std::int64_t flops_per_element(Opcode code) {
  switch (code) {
    case Opcode::exp:
    case Opcode::log:
    case Opcode::sin:
    case Opcode::cos:
    case Opcode::tanh:
    case Opcode::erf:
    case Opcode::sigmoid:
      return 20;
    case Opcode::pow:
    case Opcode::random_uniform:
      return 40;
    case Opcode::random_normal:
      return 80;
    case Opcode::sqrt:
    case Opcode::rsqrt:
    case Opcode::div:
    case Opcode::gather:
    case Opcode::pad:
      return 4;
    default:
      return op_info(code).op_class == OpClass::shape ? 0 : 1;
  }
}

}  // namespace rewire::ir
