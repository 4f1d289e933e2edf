// Forward and backward of a composite come out of decomposition and CSE with one copy of what both need.
#include <algorithm>
#include <array>
#include <string>

#include "ir/autodiff/autodiff.h"
#include "ir/builder.h"
#include "ir/opcodes.h"
#include "ir/passes/cse.h"
#include "ir/passes/dce.h"
#include "ir/passes/decompose.h"
#include "ir/verify.h"
#include "tests/support/catch.h"

namespace rewire::ir {
namespace {

struct Composite {
  Opcode code;
  Attributes attributes;
  Opcode shared;       // the costly op inside
  std::size_t copies;  // how many of it forward and backward need together
};

Value operand_of(Builder& b, Opcode code, std::size_t i) {
  const std::string name = "a" + std::to_string(i);
  if (i == 0) return b.argument(name, {DType::f32, {6, 8}});
  if (code == Opcode::cross_entropy) return b.argument(name, {DType::i64, {6}});
  if (code == Opcode::layer_norm) return b.argument(name, {DType::f32, {8}});
  return b.argument(name, {i == 3 ? DType::i1 : DType::i64, {}});  // seed, step, training
}

std::size_t operand_count(Opcode code) {
  switch (code) {
    case Opcode::layer_norm:
      return 3;
    case Opcode::cross_entropy:
      return 2;
    case Opcode::dropout:
    case Opcode::drop_path:
      return 4;
    default:
      return 1;
  }
}

/// y = composite(...), L = sum y^2 with all its gradients, decomposed and cleaned.
Module simplified_training_of(const Composite& composite) {
  Module module;
  module.name = "test";
  Function& function = module.functions.emplace_back();
  function.name = "f";
  Builder b(module, function);
  std::vector<Value> operands;
  for (std::size_t i = 0; i < operand_count(composite.code); ++i)
    operands.push_back(operand_of(b, composite.code, i));
  const Value y = b.emit(composite.code, operands, composite.attributes);
  Ints axes;
  for (int axis = 0; axis < b.type(y).rank(); ++axis) axes.push_back(axis);
  const Value loss = b.reshape(b.sum(b.mul(y, y), axes), {});
  b.result("loss", loss);
  const std::vector<Value> gradients = differentiate(b, loss, operands);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (is_float(b.type(operands[i]).dtype)) b.result("d" + std::to_string(i), gradients[i]);
  }
  PassContext context;
  decompose(module, context);
  cse(module, context);
  dce(module, context);
  verify(module);
  return module;
}

TEST_CASE("a composite and its gradient share their row statistics, exponentials and draws") {
  const Composite composite = GENERATE(values<Composite>({
      {Opcode::layer_norm, {}, Opcode::rsqrt, 1},
      // mean, variance; mean(h), mean(h xhat); two column sums; the loss
      {Opcode::layer_norm, {}, Opcode::sum, 7},
      {Opcode::softmax, {}, Opcode::exp, 1},
      {Opcode::softmax, {}, Opcode::max, 1},
      {Opcode::gelu, {}, Opcode::erf, 1},
      {Opcode::gelu, {{"approximate", std::string("tanh")}}, Opcode::tanh, 1},
      {Opcode::silu, {}, Opcode::sigmoid, 1},
      {Opcode::cross_entropy, {{"label_smoothing", 0.1}}, Opcode::exp, 1},
      {Opcode::cross_entropy, {}, Opcode::compare, 1},
      {Opcode::dropout, {{"probability", 0.5}, {"stream", std::string("s")}}, Opcode::random_uniform, 1},
      {Opcode::drop_path, {{"probability", 0.5}, {"stream", std::string("s")}}, Opcode::random_uniform, 1},
  }));
  const Module module = simplified_training_of(composite);
  const std::vector<Op>& body = module.functions[0].body;
  CAPTURE(std::string(opcode_name(composite.code)), std::string(opcode_name(composite.shared)));
  CHECK(std::count_if(body.begin(), body.end(), [&](const Op& op) { return op.code == composite.shared; }) ==
        static_cast<std::ptrdiff_t>(composite.copies));
}

}  // namespace
}  // namespace rewire::ir
