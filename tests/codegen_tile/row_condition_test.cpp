// Where the rest of a row may be skipped, and where it must not be.
#include "codegen/tile/row_condition.h"

#include "tests/support/catch.h"
#include "tests/support/tile_builder.h"

namespace rewire::test {
namespace {

using codegen::tile::row_condition;
using ir::DType;
using ir::Opcode;

struct Sum {
  std::string direction = "eq";
  double start = 0, otherwise = 0;
  Opcode adds = Opcode::add;
  bool of_lanes = false;  // the condition is one of each lane
  bool two = false;       // a second sum, of all rows
  bool stores = false;    // each row
};

/// y[c] = sum over rows r of select(index[r] = 3, x[r, c], 0), or nearly.
bool skips_rows(const Sum& sum) {
  TileBuilder t("k");
  const auto r = t.row("r", 10), c = t.lane("c", 8);
  const auto index = t.input("index", DType::i32), x = t.input("x"), y = t.output("y"), z = t.output("z");
  const auto place = t.constant(3, {}, DType::i32);
  const auto otherwise = t.constant(sum.otherwise);
  const auto entry = t.carry(t.constant(sum.start, {c}));
  const auto second = sum.two ? t.carry(t.constant(0, {c})) : entry;
  t.body();
  const auto at =
      sum.of_lanes ? t.load(index, {{c, 1}}, 0, DType::i32) : t.load(index, {{r, 1}}, 0, DType::i32);
  const auto hit = t.op(Opcode::compare, {at, place}, sum.direction);
  const auto value = t.load(x, {{r, 8}, {c, 1}});
  const auto next = t.op(sum.adds, {entry, t.op(Opcode::select, {hit, value, otherwise})});
  const auto all = sum.two ? t.op(Opcode::add, {second, value}) : next;
  if (sum.stores) t.store(z, value, {{r, 8}, {c, 1}});
  const auto last = t.carry_next(entry, next);
  if (sum.two) t.carry_next(second, all);
  t.epilogue();
  t.store(y, last, {{c, 1}});
  const auto condition = row_condition(t.finish());
  CHECK((!condition || condition == hit));
  return static_cast<bool>(condition);
}

TEST_CASE("a row is skipped where all it does is to add 0") {
  CHECK(skips_rows({}));
  CHECK_FALSE(skips_rows({.direction = "ne"}));
  CHECK_FALSE(skips_rows({.start = -0.0}));  // -0 + 0 is 0
  CHECK_FALSE(skips_rows({.otherwise = 1}));
  CHECK_FALSE(skips_rows({.adds = Opcode::maximum}));
  CHECK_FALSE(skips_rows({.of_lanes = true}));
  CHECK_FALSE(skips_rows({.two = true}));
  CHECK_FALSE(skips_rows({.stores = true}));
}

}  // namespace
}  // namespace rewire::test
