// The text of a kernel is pinned, and two kernels share a structure exactly when they may share code.
#include "codegen/tile/tile.h"
#include "ir/opcodes.h"
#include "tests/support/catch.h"
#include "tests/support/tile_builder.h"

namespace rewire::test {
namespace {

using codegen::tile::print;
using codegen::tile::structure;
using ir::DType;
using ir::Opcode;

/// A kernel with a node of every kind.
codegen::tile::Kernel sample(const std::string& name = "sample", const std::string& axis = "c",
                             double scale = 0.5) {
  TileBuilder t(name);
  const auto b = t.outer("b", 2);
  const auto r = t.row("r", 10);
  const auto m = t.lane("m", 3);
  const auto n = t.lane("n", 4);
  const auto c = t.lane(axis, 8);
  t.partitions(4);
  t.kernel().origin = {"%12 residual blocks.3.attn"};
  const auto x = t.input("x", DType::bf16);
  const auto y = t.output("y");
  const auto seed = t.load(t.input("seed", DType::i64), {}, 0, DType::i64);
  const auto sum = t.carry(t.constant(0, {c}));
  t.body();
  const auto a = t.load(x, {{b, 240}, {r, 24}, {m, 8}, {c, 1}}, 5);
  const auto i = t.gather(x, {{n, 8}, {c, 1}}, t.index(r, DType::i32), 8, 10);
  const auto u = t.random(false, seed, seed, 255, {{r, 8}, {c, 1}});
  const auto small = t.op(Opcode::compare, {t.op(Opcode::mul, {u, i}), t.constant(scale)}, "lt");
  const auto d = t.dot(a, i, c);
  const auto last = t.carry_next(sum, t.op(Opcode::add, {sum, t.sum(a, {m})}));
  t.store(y, t.max(d, {m, n}), {{r, 1}});
  t.store(y, t.cast(small, DType::f32), {{n, 8}, {c, 1}});
  t.epilogue();
  t.store(y, last, {{c, 1}}, 30, 8);
  return t.finish();
}

TEST_CASE("a kernel prints as pinned") {
  CHECK(print(sample()) == R"(kernel sample outer (b 2) rows (r 10) / 4 lanes (m 3, n 4, c 8)
  // %12 residual blocks.3.attn
  read bf16 x
  write f32 y
  read i64 seed
prologue:
  %0 : i64 = load seed[0]
  %1 : f32(c) = constant 0
body:
  carry %2 : f32(c) = %1 -> %13
  %3 : f32(m,c) = load x[240 b + 24 r + 8 m + c + 5]
  %4 : i32 = index r
  %5 : f32(n,c) = gather x[8 n + c + 8 clamp(%4, 10)]
  %6 : f32(c) = uniform seed %0, step %0, stream 0xff, element [8 r + c]
  %7 : f32(n,c) = mul %6, %5
  %8 : f32 = constant 0.5
  %9 : i1(n,c) = compare lt %7, %8
  %10 : f32(m,n) = dot %3, %5 over c
  %11 : f32(c) = sum %3 over (m)
  %12 : f32(c) = add %2, %11
  %14 : f32 = max %10 over (m,n)
  store y[r] = %14
  %15 : f32(n,c) = cast %9
  store y[8 n + c] = %15
  yield %2 = %12
epilogue:
  store y[c + 8 part + 30] = %13
)");
}

TEST_CASE("row bounds and short tiles print") {
  auto kernel = sample();
  kernel.partitions = 1;
  kernel.bounds = codegen::tile::RowBounds{{0}, {4}, 7};
  kernel.short_tiles = {{1, 4, 75}};
  const std::string text = print(kernel);
  CHECK(text.find("\n  75 of tiles r of c\n") != text.npos);
  CHECK(text.find("\n  rows from %0 to %4\n") != text.npos);
}

TEST_CASE("names and provenance are not part of the structure") {
  auto other = sample("another", "k");
  other.origin = {};
  other.arguments[0].name = "blocks.7.x";
  CHECK(structure(sample()) == structure(other));
}

TEST_CASE("whatever changes the code is part of the structure") {
  const std::string base = structure(sample());
  auto kernel = sample("sample", "c", 0.25);
  CHECK(structure(kernel) != base);
  kernel = sample();
  kernel.axes[4].extent = 9;
  CHECK(structure(kernel) != base);
  kernel = sample();
  kernel.partitions = 5;
  CHECK(structure(kernel) != base);
  kernel = sample();
  kernel.arguments[0].dtype = DType::f32;
  CHECK(structure(kernel) != base);
  kernel = sample();
  kernel.arguments[1].use = codegen::tile::ArgumentUse::read_write;
  CHECK(structure(kernel) != base);
  kernel = sample();
  kernel.carried[0].next = kernel.carried[0].entry;
  CHECK(structure(kernel) != base);
  kernel = sample();
  kernel.bounds = codegen::tile::RowBounds{{0}, {0}, 7};
  CHECK(structure(kernel) != base);
  kernel = sample();
  kernel.short_tiles = {{1, 4, 75}};
  CHECK(structure(kernel) != base);
  kernel = sample();
  std::swap(kernel.axes[0].use, kernel.axes[2].use);  // the same extents by use, in another order of axes
  CHECK(structure(kernel) != base);
}

TEST_CASE("a grid counts its instances and rows") {
  const auto kernel = sample();
  CHECK(kernel.instances() == 8);
  CHECK(kernel.row_count() == 10);
  CHECK(kernel.rows_per_partition() == 3);
  CHECK(kernel.row_visits() == 20);
}

}  // namespace
}  // namespace rewire::test
