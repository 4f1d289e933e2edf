// A matrix that is normalised along rows and columns in turn, and the gradient through all steps: chains of
// reductions over both axes, for the fuser and the printers.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "ir/autodiff/autodiff.h"
#include "ir/builder.h"
#include "ir/module.h"
#include "ir/opcodes.h"
#include "ir/tensor.h"
#include "ir/verify.h"

namespace rewire::testing {

struct SmallMatrix {
  std::int64_t rows = 4, columns = 4;
  int steps = 20;  // along rows and along columns
  bool gradient = true;
};

/// Returns function "main" of x and g, both [rows, columns]. y = exp(x), in every step divided by its row
/// sums and then by its column sums; dx, the gradient of the sum of y g.
inline ir::Module small_matrix(const SmallMatrix& s) {
  ir::Module module;
  module.name = "small_matrix";
  ir::Function& main = module.functions.emplace_back();
  main.name = "main";
  ir::Builder b(module, main);
  const ir::TensorType type{ir::DType::f32, {s.rows, s.columns}};
  const ir::Value x = b.argument("x", type), g = b.argument("g", type);
  ir::Value y = b.unary(ir::Opcode::exp, x);
  for (int step = 0; step < s.steps; ++step) {
    for (const std::int64_t axis : {1, 0}) y = b.binary(ir::Opcode::div, y, b.sum(y, {axis}));
  }
  b.result("y", y);
  if (s.gradient) {
    const ir::Value loss = b.reshape(b.sum(b.binary(ir::Opcode::mul, y, g), {0, 1}), {});
    b.result("dx", ir::differentiate(b, loss, std::vector{x})[0]);
  }
  ir::verify(module);
  return module;
}

inline std::vector<ir::Tensor> small_matrix_inputs(const SmallMatrix& s) {
  std::vector<ir::Tensor> inputs(2, ir::Tensor({ir::DType::f32, {s.rows, s.columns}}));
  for (std::size_t i = 0; i < inputs[0].data.size(); ++i) {
    inputs[0].data[i] = ir::round_to(ir::DType::f32, std::sin(2.3 * static_cast<double>(i)));
    inputs[1].data[i] = ir::round_to(ir::DType::f32, std::cos(1.7 * static_cast<double>(i)));
  }
  return inputs;
}

/// Returns odd and even sizes, up to 16, and matrices that are not square.
inline std::vector<SmallMatrix> small_matrices() {
  std::vector<SmallMatrix> sizes = {{4, 4, 20}, {3, 5, 20}};
  for (std::int64_t n = 1; n <= 16; ++n) {
    sizes.push_back({n, n, 3});
    sizes.push_back({n, 17 - n, 3});
  }
  return sizes;
}

}  // namespace rewire::testing
