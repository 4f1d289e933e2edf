#include "programs/sums.h"

#include <numeric>

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

}  // namespace rewire::programs
