// Where the rest of a row may be skipped, and where it must not be.
#include "codegen/tile/row_condition.h"

#include <string>

#include "ir/opcodes.h"
#include "tests/support/catch.h"
#include "tests/support/tile_builder.h"

namespace rewire::test {
namespace {

using codegen::tile::row_conditions;
using ir::DType;
using ir::Opcode;

enum class Second : std::uint8_t { same, other, all };

struct Sum {
  std::string direction = "eq";
  double start = 0, otherwise = 0;
  Opcode adds = Opcode::add;
  bool of_lanes = false;         // the condition is one of each lane
  Second second = Second::same;  // another sum: under the same condition, another, or of all rows
  bool stores = false;           // each row
};

/// How many conditions y[c] = sum over rows r of select(index[r] = 3, x[r, c], 0) has, or what is nearly so.
std::size_t conditions(const Sum& sum) {
  TileBuilder t("k");
  const auto r = t.row("r", 10), c = t.lane("c", 8);
  const auto index = t.input("index", DType::i32), x = t.input("x"), y = t.output("y");
  const auto otherwise = t.constant(sum.otherwise);
  const auto place = t.constant(3, {}, DType::i32), other = t.constant(4, {}, DType::i32);
  const auto entry = t.carry(t.constant(sum.start, {c}));
  const auto second = t.carry(t.constant(0, {c}));
  t.body();
  const auto at = t.load(index, {{sum.of_lanes ? c : r, 1}}, 0, DType::i32);
  const auto hit = t.op(Opcode::compare, {at, place}, sum.direction);
  const auto value = t.load(x, {{r, 8}, {c, 1}});
  const auto added = t.op(Opcode::select, {hit, value, otherwise});
  const auto next = t.op(sum.adds, {entry, added});
  auto more = added;
  if (sum.second == Second::all) more = value;
  if (sum.second == Second::other)
    more = t.op(Opcode::select, {t.op(Opcode::compare, {at, other}, "eq"), value, otherwise});
  if (sum.stores) t.store(y, value, {{r, 8}, {c, 1}});
  const auto last = t.carry_next(entry, next);
  t.carry_next(second, t.op(Opcode::add, {second, more}));
  t.epilogue();
  if (!sum.stores) t.store(y, last, {{c, 1}});
  return row_conditions(t.finish()).size();
}

TEST_CASE("a row is skipped where all it does is to add 0") {
  CHECK(conditions({}) == 1);
  CHECK(conditions({.second = Second::other}) == 2);
  CHECK(conditions({.direction = "ne"}) == 0);
  CHECK(conditions({.start = -0.0}) == 0);  // -0 + 0 is 0
  CHECK(conditions({.otherwise = 1}) == 0);
  CHECK(conditions({.adds = Opcode::maximum}) == 0);
  CHECK(conditions({.of_lanes = true}) == 0);
  CHECK(conditions({.second = Second::all}) == 0);
  CHECK(conditions({.stores = true}) == 0);
}

}  // namespace
}  // namespace rewire::test
