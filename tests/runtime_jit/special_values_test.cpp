// NaN, infinities, both zeros, subnormals and the largest numbers through every op that computes element by
// element or along an axis: compiled as evaluated, where NaN and infinities must agree.
#include <cmath>
#include <functional>
#include <limits>

#include "ir/builder.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "tests/runtime_jit/jit_check.h"
#include "tests/support/catch.h"

using namespace rewire;
using ir::Builder;
using ir::Opcode;
using ir::Value;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// [8, 16]: each value beside each of the others somewhere.
ir::Tensor special() {
  const std::vector<double> values = {std::nan(""), kInfinity, -kInfinity, 0,      -0.0, 1,    -1,
                                      1e30,         -1e30,     1e-40,      -1e-40, 88.8, -104, 3e38,
                                      -3e38,        0.5,       20,         -20,    1e-30};
  ir::Tensor tensor({ir::DType::f32, {8, 16}});
  for (std::size_t i = 0; i < tensor.data.size(); ++i)
    tensor.data[i] = ir::round_to(ir::DType::f32, values[(i * 7 + i / 19) % values.size()]);
  return tensor;
}

/// One result [8, 16] of x and its rows in reverse order.
void check(const std::string& what, const std::function<Value(Builder&, Value, Value)>& write) {
  ir::Module module;
  module.name = "special";
  ir::Function& main = module.functions.emplace_back();
  main.name = "main";
  Builder b(module, main);
  const Value x = b.argument("x", {ir::DType::f32, {8, 16}});
  const Value parts[] = {b.slice(x, 0, 3, 8), b.slice(x, 0, 0, 3)};
  b.result("y", b.cast(b.broadcast(write(b, x, b.concat(parts, 0)), {8, 16}), ir::DType::f32));
  const ir::Tensor input = special();
  ir::EvalState state;
  const std::vector<double> expected = ir::evaluate(module, main, {input}, state)[0].data;
  for (const bool fuse : {true, false}) {
    const std::vector<double> actual = testing::run_jit(module, {input}, {}, fuse, 1).results[0].data;
    for (std::size_t i = 0; i < actual.size(); ++i) {
      const double e = ir::round_to(ir::DType::f32, expected[i]);
      INFO(what << " of " << input.data[i] << ", element " << i << ", fuse " << fuse << ": " << actual[i]
                << ", not " << e);
      const bool close = std::abs(actual[i] - e) <= 1e-5 * std::abs(e) + 1e-37;
      CHECK((actual[i] == e || (std::isnan(actual[i]) && std::isnan(e)) || close));
    }
  }
}

}  // namespace

TEST_CASE("Ops of one operand agree with the evaluator on special values") {
  for (const Opcode code : {Opcode::neg, Opcode::abs, Opcode::exp, Opcode::log, Opcode::sqrt, Opcode::rsqrt,
                            Opcode::tanh, Opcode::erf, Opcode::sigmoid, Opcode::floor, Opcode::isfinite,
                            Opcode::silu, Opcode::relu, Opcode::gelu}) {
    check(std::string(ir::opcode_name(code)), [&](Builder& b, Value x, Value) { return b.unary(code, x); });
  }
  // Of -inf it is NaN by its formula, of which the evaluator's is another spelling.
  check("gelu by tanh", [](Builder& b, Value x, Value) {
    const Value finite = b.select(b.unary(Opcode::isfinite, x), x, b.constant(0));
    return b.emit(Opcode::gelu, {finite}, {{"approximate", std::string("tanh")}});
  });
}

TEST_CASE("Ops of two operands agree with the evaluator on special values") {
  for (const Opcode code :
       {Opcode::add, Opcode::sub, Opcode::mul, Opcode::div, Opcode::maximum, Opcode::minimum}) {
    check(std::string(ir::opcode_name(code)),
          [&](Builder& b, Value x, Value y) { return b.binary(code, x, y); });
  }
  // The op is of bases above 0, or of whole exponents.
  check("pow",
        [](Builder& b, Value x, Value y) { return b.binary(Opcode::pow, b.unary(Opcode::abs, x), y); });
  for (const char* direction : {"lt", "le", "gt", "ge", "eq", "ne"})
    check(direction, [&](Builder& b, Value x, Value y) { return b.compare(direction, x, y); });
}

TEST_CASE(
    "Reductions and orders agree with the evaluator on special values; the largest of a row is its first "
    "NaN") {
  for (const std::int64_t axis : {0, 1}) {
    check("sum", [&](Builder& b, Value x, Value) { return b.sum(x, {axis}); });
    check("max", [&](Builder& b, Value x, Value) { return b.max(x, {axis}); });
    check("argmax",
          [&](Builder& b, Value x, Value) { return b.emit(Opcode::argmax, {x}, {{"axis", axis}}); });
    check("argmax of what is finite", [&](Builder& b, Value x, Value) {
      return b.emit(Opcode::argmax, {b.select(b.unary(Opcode::isfinite, x), x, b.constant(0))},
                    {{"axis", axis}});
    });
    check("sort", [&](Builder& b, Value x, Value) { return b.emit(Opcode::sort, {x}, {{"axis", axis}}); });
    check("softmax",
          [&](Builder& b, Value x, Value) { return b.emit(Opcode::softmax, {x}, {{"axis", axis}}); });
  }
}
