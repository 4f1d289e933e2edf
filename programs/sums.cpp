#include "programs/sums.h"

#include <numeric>

#include "ir/opcodes.h"

namespace rewire::programs {

using ir::Value;

Value sum_all(ir::Builder& builder, Value x) {
  ir::Ints axes(builder.shape(x).size());
  std::iota(axes.begin(), axes.end(), 0);
  return axes.empty() ? x : builder.reshape(builder.sum(x, std::move(axes)), {});
}

Value mean_all(ir::Builder& builder, Value x) {
  const auto count = static_cast<double>(builder.type(x).elements());
  return builder.div(sum_all(builder, x), count);
}

ir::Value surprisals(ir::Builder& b, ir::Value x) {
  const ir::Value shifted = b.sub(x, b.unary(ir::Opcode::stop_gradient, b.max(x, {-1})));
  return b.sub(b.unary(ir::Opcode::log, b.sum(b.unary(ir::Opcode::exp, shifted), {-1})), shifted);
}

}  // namespace rewire::programs
