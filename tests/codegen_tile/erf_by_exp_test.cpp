// compute_erf_by_exp: when an erf takes the exponential beside it, and when it must not.
#include "codegen/tile/erf_by_exp.h"

#include "codegen/tile/walk.h"
#include "ir/opcodes.h"
#include "tests/support/catch.h"
#include "tests/support/tile_builder.h"

namespace rewire::test {
namespace {

using namespace codegen::tile;  // NOLINT: the subject of this file
using ir::DType;
using ir::Opcode;

/// The gradient of GELU, and what may differ from it.
struct Gate {
  double root_half = 0.7071067811865476, minus_half = -0.5;
  bool exponential_first = true, same_x = true, squares_x = true, also_stored = false, casts = false;
  DType stored = DType::f32;
};

Kernel gate(const Gate& gate) {
  TileBuilder t("gate");
  const auto r = t.row("r", 64), c = t.lane("c", 128);
  const auto x = t.input("x", gate.stored), z = t.input("z", gate.stored), y = t.output("y"),
             w = t.output("w");
  t.body();
  const TileBuilder::Strides place{{r, 128}, {c, 1}};
  const auto loaded = t.load(x, place, 0, gate.stored), other = t.load(z, place, 0, gate.stored);
  const auto number = [&](TileValue of) { return gate.casts ? t.cast(of, DType::f32) : of; };
  const auto exponential = [&] {
    const auto of = number(loaded);
    const auto square = t.op(Opcode::mul, {of, gate.squares_x ? number(loaded) : number(other)});
    const auto exponent = t.op(Opcode::mul, {square, t.constant(gate.minus_half)});
    if (gate.also_stored) t.store(w, exponent, place);
    return t.op(Opcode::exp, {exponent});
  };
  const auto integral = [&] {
    const auto of = number(gate.same_x ? loaded : other);
    return t.op(Opcode::erf, {t.op(Opcode::mul, {of, t.constant(gate.root_half)})});
  };
  TileValue e, i;
  if (gate.exponential_first) e = exponential();
  i = integral();
  if (!gate.exponential_first) e = exponential();
  t.store(y, t.op(Opcode::add, {i, e}), place);
  Kernel kernel = t.finish();
  compute_erf_by_exp(kernel);
  verify(kernel);
  return kernel;
}

/// The operands of the erf; with two, the second is checked to be a power of two.
std::size_t operands_of_erf(const Kernel& kernel) {
  std::size_t count = 0;
  TileValue second;
  for (const Node& node : kernel.body) {
    const auto* op = std::get_if<Pointwise>(&node);
    if (op == nullptr || op->code != Opcode::erf) continue;
    count = op->operands.size();
    second = op->operands.back();
  }
  if (count != 2) return count;
  for (const Node& node : kernel.body) {
    if (result_of(node) != second) continue;
    const auto* op = std::get_if<Pointwise>(&node);
    REQUIRE(op != nullptr);
    CHECK(op->code == Opcode::pow);
    CHECK(op->operands.size() == 2);
  }
  return count;
}

}  // namespace

TEST_CASE("an erf of x / sqrt 2 after exp(-x^2 / 2) takes the exponential, also of x in 16 bits") {
  CHECK(operands_of_erf(gate({})) == 2);
  for (const DType stored : {DType::f32, DType::bf16, DType::f16})
    CHECK(operands_of_erf(gate({.casts = true, .stored = stored})) == 2);
}

TEST_CASE("an erf keeps to itself where the exponential is another, comes later or has other uses") {
  CHECK(operands_of_erf(gate({.root_half = 0.70})) == 1);
  CHECK(operands_of_erf(gate({.minus_half = -0.51})) == 1);
  CHECK(operands_of_erf(gate({.exponential_first = false})) == 1);
  CHECK(operands_of_erf(gate({.same_x = false})) == 1);
  CHECK(operands_of_erf(gate({.squares_x = false})) == 1);
  CHECK(operands_of_erf(gate({.also_stored = true})) == 1);
}

}  // namespace rewire::test
