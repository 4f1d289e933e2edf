// Programs of Fourier transforms, their gradients and a block-circulant product by them, and the record that
// has cuFFT compute all of it: for the tests on the fake libraries and on a GPU.
#pragma once

#include "ir/autodiff/autodiff.h"
#include "ir/builder.h"
#include "ir/opcodes.h"
#include "ir/passes/pass.h"
#include "ir/philox.h"
#include "ir/tensor.h"
#include "ir/verify.h"
#include "runtime/exec/cuda/tune/fourier_choices.h"

namespace rewire::testing {

struct TransformCase {
  std::int64_t rows = 1, length = 1;
  ir::DType dtype = ir::DType::f32;
};

/// main(x [rows, n], g [2, bins]): the spectrum of x; y, the row of g times it; and the gradients of the sum
/// of y^2. Of short rows also z = x as two slices times circulant blocks, with its gradients.
inline ir::Module transform_module(const TransformCase& of) {
  constexpr std::int64_t kLongestBlock = 128;
  ir::Module module;
  module.name = "transforms";
  ir::Function& main = module.functions.emplace_back();
  main.name = "main";
  ir::Builder b(module, main);
  const std::int64_t n = of.length;
  const ir::Value x = b.argument("x", {of.dtype, {of.rows, n}});
  const ir::Value g = b.argument("g", {of.dtype, {2, n / 2 + 1}});
  const ir::Value spectrum = b.emit(ir::Opcode::rfft, {x});
  const ir::Value y = b.emit(ir::Opcode::irfft, {b.mul(spectrum, g)}, {{"length", n}});
  ir::Value loss = b.reshape(b.sum(b.mul(y, y), {0, 1}), {});
  std::vector<ir::Value> wrt = {x, g};
  std::vector<std::string> names = {"dx", "dg"};
  b.result("spectrum", spectrum);
  b.result("y", y);
  if (n <= kLongestBlock) {
    const ir::Value c = b.argument("c", {of.dtype, {2, 1, n}});
    const ir::Value z = b.emit(ir::Opcode::circulant_matmul, {x, c}, {{"lowering", std::string("fft")}});
    loss = b.add(loss, b.reshape(b.sum(b.mul(z, z), {0, 1}), {}));
    wrt.push_back(c);
    names.emplace_back("dc");
    b.result("z", z);
  }
  const std::vector<ir::Value> gradients = ir::differentiate(b, loss, wrt);
  for (std::size_t i = 0; i < names.size(); ++i) b.result(names[i], gradients[i]);
  ir::verify(module);
  return module;
}

/// For each argument of "main": uniform in [-1, 1), rounded to its dtype.
inline std::vector<ir::Tensor> transform_inputs(const ir::Module& module, std::uint64_t seed) {
  std::vector<ir::Tensor> inputs;
  const ir::Function& main = module.function("main");
  for (const ir::Argument& argument : main.arguments) {
    const ir::PhiloxStream stream{seed, 0, ir::stream_hash(argument.name)};
    ir::Tensor& tensor = inputs.emplace_back(main.type(argument.value));
    for (std::size_t i = 0; i < tensor.data.size(); ++i)
      tensor.data[i] = ir::round_to(tensor.type.dtype, 2 * stream.uniform(i) - 1);
  }
  return inputs;
}

/// The choices that leave every transform of the module to cuFFT.
inline runtime::ChoiceRecord all_by_cufft(const ir::Module& module) {
  runtime::ChoiceRecord choices;
  ir::Module lowered = module;
  ir::PassContext context;
  context.fourier = [&](const ir::FourierRows& rows) {
    choices.add({runtime::fourier_key(rows), "cuFFT of this machine", std::string(runtime::kByModel), {}});
    return ir::FourierWay::op;
  };
  ir::run_pipeline(lowered, context);
  return choices;
}

}  // namespace rewire::testing
