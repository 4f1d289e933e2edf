// merge_axes: when neighbouring axes become one, and when they must not.
#include "codegen/tile/simplify.h"

#include "ir/opcodes.h"
#include "tests/support/catch.h"
#include "tests/support/tile_builder.h"

namespace rewire::test {
namespace {

using namespace codegen::tile;  // NOLINT: the subject of this file
using ir::Opcode;

struct Shape {
  std::int64_t rows = 30, pieces = 8, lanes = 12;
  std::int64_t row_stride = 96, partitions = 3;
};

/// y = op(x) over rows (r, s) of lanes c; `x` is dense over (s, c), and over all three with the default
/// stride.
TileBuilder elementwise(const Shape& shape) {
  TileBuilder t("k");
  t.partitions(shape.partitions);
  const auto r = t.row("r", shape.rows);
  const auto s = t.row("s", shape.pieces);
  const auto c = t.lane("c", shape.lanes);
  const auto x = t.input("x");
  const auto y = t.output("y");
  t.body();
  const TileBuilder::Strides place{{r, shape.row_stride}, {s, shape.lanes}, {c, 1}};
  t.store(y, t.op(Opcode::exp, {t.load(x, place)}), place);
  return t;
}

Kernel merged(Kernel kernel) {
  merge_axes(kernel);
  verify(kernel);
  return kernel;
}

}  // namespace

TEST_CASE("rows lengthen a short lane where every access walks them as one") {
  const Kernel kernel = merged(elementwise({}).kernel());
  REQUIRE(kernel.axes.size() == 2);
  CHECK(kernel.axes[0].extent == 30);
  CHECK(kernel.axes[1].extent == 96);
  CHECK(kernel.axes[1].use == AxisUse::lane);
  CHECK(kernel.row_count() == 30);
  CHECK(std::get<Load>(kernel.body[0]).access.strides == std::vector<std::int64_t>{96, 1});
}

TEST_CASE("rows stay rows where lanes are long, strides differ, or too few rows would be left to share out") {
  CHECK(merged(elementwise({30, 8, 128, 1024, 3}).kernel()).axes.back().extent == 128);
  TileBuilder strided("k");
  const auto r = strided.row("r", 30), s = strided.row("s", 8);
  const auto c = strided.lane("c", 12);
  const auto x = strided.input("x"), y = strided.output("y");
  strided.body();
  strided.store(y, strided.load(x, {{r, 96}, {s, 1}, {c, 8}}), {{r, 96}, {s, 12}, {c, 1}});
  CHECK(merged(strided.kernel()).axes.back().extent == 12);
  // 240 rows in 60 parts: 30 longer rows would not do.
  CHECK(merged(elementwise({30, 8, 12, 100, 60}).kernel()).axes.back().extent == 12);
  // All of it one row: no rows would be left at all. The two row axes become one.
  CHECK(merged(elementwise({1, 8, 12, 96, 1}).kernel()).axes.back().extent == 12);
}

TEST_CASE("rows stay rows where something is added up over them or over the lanes") {
  TileBuilder sums("k");
  const auto r = sums.row("r", 30), s = sums.row("s", 8);
  const auto c = sums.lane("c", 12);
  const auto x = sums.input("x"), y = sums.output("y");
  sums.body();
  const auto value = sums.load(x, {{r, 96}, {s, 12}, {c, 1}});
  sums.store(y, sums.op(Opcode::sub, {value, sums.sum(value, {c})}), {{r, 96}, {s, 12}, {c, 1}});
  CHECK(merged(sums.kernel()).axes.back().extent == 12);

  TileBuilder carries("k");
  const auto i = carries.row("r", 30), j = carries.row("s", 8);
  const auto k = carries.lane("c", 12);
  const auto from = carries.input("x"), to = carries.output("y");
  const auto entry = carries.carry(carries.constant(0, {k}));
  carries.body();
  const auto last = carries.carry_next(
      entry, carries.op(Opcode::add, {entry, carries.load(from, {{i, 96}, {j, 12}, {k, 1}})}));
  carries.epilogue();
  carries.store(to, last, {{k, 1}});
  CHECK(merged(carries.kernel()).axes.back().extent == 12);
}

}  // namespace rewire::test
