// The phases of a kernel's plan, each alone: the levels of a row kernel, and the schedules that facts allow.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "codegen/cuda/blocks_schedules.h"
#include "codegen/cuda/rows_levels.h"
#include "codegen/cuda/rows_schedules.h"
#include "ir/opcodes.h"
#include "tests/support/catch.h"
#include "tests/support/tile_builder.h"

namespace rewire::test {
namespace {

using namespace codegen::cuda;  // NOLINT: the subject of this file

constexpr std::size_t kAllOfThem = 100;

/// Facts of many row kernels: odd and even lanes, few and many arrays, with and without what constrains a
/// schedule.
template <class Visit>
void for_many_rows(Visit visit) {
  for (const std::int64_t lanes : {1, 5, 64, 97, 768, 1000, 3072, 20000}) {
    for (const std::int64_t rows : {1, 3, 197, 50432}) {
      for (const int arrays : {0, 1, 3, 9, 30}) {
        for (int bits = 0; bits < 32; ++bits) {
          RowFacts facts;
          facts.multiprocessors = 132;
          facts.lanes = lanes;
          facts.rows = rows;
          facts.outer = 2;
          facts.has_reduction = (bits & 1) != 0;
          facts.is_one_block = (bits & 2) != 0;
          facts.by_partition = (bits & 4) != 0;
          facts.adds_up = (bits & 8) != 0;
          facts.shares_prologue = (bits & 16) != 0 && !facts.by_partition && !facts.is_one_block;
          facts.partitions = facts.by_partition ? std::min<std::int64_t>(rows, 100) : 1;
          facts.widest = lanes % 4 == 0 ? 4 : 1;
          facts.live = {arrays, 2};
          visit(facts);
        }
      }
    }
  }
}

std::string text_of(const RowFacts& facts, const RowsSchedule& schedule) {
  return fmt::format(
      "{} lanes, {} rows, {} arrays, reduction {}, one block {}, partitions {}, adds up {}: {}", facts.lanes,
      facts.rows, facts.live.arrays, facts.has_reduction, facts.is_one_block, facts.by_partition,
      facts.adds_up, schedule_text(schedule));
}

TEST_CASE("every row schedule covers all lanes and all rows, and fits its kernel") {
  for_many_rows([&](const RowFacts& facts) {
    for (const RowsSchedule& one : rows_schedules(facts, kAllOfThem)) {
      const std::int64_t lanes = std::int64_t{one.threads} * one.elements() * lane_blocks(facts, one);
      const std::int64_t rows = facts.by_partition
                                    ? facts.partitions * facts.rows_per_partition()
                                    : std::int64_t{one.groups} * one.repeats * row_blocks(facts, one);
      if (lanes >= facts.lanes && rows >= facts.rows && fits(facts, one) && one.block_threads() <= 1024)
        continue;
      FAIL_CHECK(text_of(facts, one));
    }
  });
}

TEST_CASE("the list of row schedules begins with the cost model's, has each once, and obeys its limit") {
  for_many_rows([&](const RowFacts& facts) {
    const std::vector<RowsSchedule> list = rows_schedules(facts, kAllOfThem), few = rows_schedules(facts, 3);
    std::set<std::string> texts;
    for (const RowsSchedule& one : list) texts.insert(schedule_text(one));
    const bool right = list.front() == modelled_rows(facts).schedule && texts.size() == list.size() &&
                       few.size() <= 3 && std::equal(few.begin(), few.end(), list.begin());
    if (!right) FAIL_CHECK(text_of(facts, list.front()));
  });
}

TEST_CASE("lanes are spread over blocks only if no lane needs another") {
  RowFacts facts;
  facts.multiprocessors = 132;
  facts.lanes = 20000;
  facts.rows = 3;
  facts.widest = 4;
  facts.live = {2, 1};
  const RowsSchedule apart = modelled_rows(facts).schedule;
  CHECK(lane_blocks(facts, apart) > 1);
  facts.has_reduction = true;
  const RowsSchedule whole = modelled_rows(facts).schedule;
  CHECK(lane_blocks(facts, whole) == 1);
  CHECK(std::int64_t{whole.threads} * whole.elements() >= facts.lanes);
  CHECK_FALSE(fits(facts, apart));
}

TEST_CASE("a reduced row that no block has registers for is crowded") {
  RowFacts facts;
  facts.multiprocessors = 132;
  facts.rows = 100;
  facts.has_reduction = true;
  facts.widest = 4;
  facts.live = {3, 1};
  facts.lanes = 1024;
  CHECK_FALSE(modelled_rows(facts).crowded);
  facts.lanes = 200000;
  CHECK(modelled_rows(facts).crowded);
}

TEST_CASE("a row schedule with a number that its kernel cannot have is refused") {
  RowFacts facts;
  facts.multiprocessors = 132;
  facts.lanes = 96;
  facts.rows = 50;
  facts.has_reduction = true;
  facts.widest = 4;
  facts.live = {2, 1};
  const RowsSchedule good = modelled_rows(facts).schedule;
  REQUIRE(fits(facts, good));
  const auto with = [&](int RowsSchedule::* number, int value) {
    RowsSchedule next = good;
    next.*number = value;
    return next;
  };
  CHECK_FALSE(fits(facts, with(&RowsSchedule::vector, 3)));
  CHECK_FALSE(fits(facts, with(&RowsSchedule::threads, 24)));
  CHECK_FALSE(fits(facts, with(&RowsSchedule::chunks, good.chunks + 40)));
  CHECK_FALSE(fits(facts, with(&RowsSchedule::groups, 0)));
  CHECK_FALSE(fits(facts, with(&RowsSchedule::repeats, 65)));
  CHECK_FALSE(fits(facts, with(&RowsSchedule::resident_blocks, 1000)));
}

/// y = x * scale - mean(x): `scale`, one number per row, is read after the reduction only.
codegen::tile::Kernel scaled_rows() {
  TileBuilder t("scaled");
  const auto r = t.row("r", 30);
  const auto c = t.lane("c", 40);
  const auto x = t.input("x"), scale = t.input("scale"), y = t.output("y");
  t.body();
  const auto factor = t.load(scale, {{r, 1}});
  const auto row = t.load(x, {{r, 40}, {c, 1}});
  const auto mean = t.op(ir::Opcode::div, {t.sum(row, {c}), t.constant(40)});
  t.store(y, t.op(ir::Opcode::sub, {t.op(ir::Opcode::mul, {row, factor}), mean}), {{r, 40}, {c, 1}});
  return t.finish();
}

TEST_CASE(
    "what reads a reduction's result is a level later, and a row that is read there stays in registers") {
  const codegen::tile::Kernel kernel = scaled_rows();
  REQUIRE(is_row_kernel(kernel));
  RowLevels levels = row_levels(kernel);
  choose_homes(kernel, levels);
  CHECK(levels.prologue.nodes.empty());
  CHECK(levels.body.levels == 2);
  for (const LeveledNode& leveled : levels.body.nodes) {
    if (std::holds_alternative<codegen::tile::Store>(*leveled.node)) CHECK(leveled.level == 1);
    if (const auto* sum = std::get_if<codegen::tile::Reduce>(leveled.node)) {
      CHECK(leveled.level == 0);
      CHECK(levels.home(sum->result).level == 1);
      CHECK(levels.home(sum->operand).array);
    }
  }
}

TEST_CASE("a scalar's load sinks to the level that reads it") {
  const codegen::tile::Kernel kernel = scaled_rows();
  RowLevels levels = row_levels(kernel);
  const auto level_of_scale = [&] {
    for (const LeveledNode& leveled : levels.body.nodes) {
      const auto* load = std::get_if<codegen::tile::Load>(leveled.node);
      if (load != nullptr && load->access.argument == 1) return leveled.level;
    }
    return -1;
  };
  CHECK(level_of_scale() == 0);
  for (LeveledNode& leveled : levels.body.nodes) {
    if (const auto* op = std::get_if<codegen::tile::Pointwise>(leveled.node);
        op != nullptr && op->code == ir::Opcode::mul)
      leveled.level = 1;  // as if it had to wait for the mean
  }
  sink_scalar_loads(kernel, levels);
  CHECK(level_of_scale() == 1);
}

TEST_CASE("a product of two lanes is no row kernel") {
  TileBuilder t("product");
  const auto m = t.lane("m", 4);
  const auto n = t.lane("n", 4);
  const auto k = t.lane("k", 4);
  const auto a = t.input("a"), b = t.input("b"), y = t.output("y");
  const auto product = t.dot(t.load(a, {{m, 4}, {k, 1}}), t.load(b, {{k, 4}, {n, 1}}), k);
  t.store(y, product, {{m, 4}, {n, 1}});
  CHECK_FALSE(is_row_kernel(t.finish()));
  CHECK(is_row_kernel(scaled_rows()));
}

/// Attention-like facts: a product whose columns feed a chained one.
BlockFacts chained_facts(std::int64_t row_tiles, std::int64_t column_tiles, std::int64_t shared_bytes) {
  BlockFacts facts;
  ProductFacts& product = facts.products.emplace_back();
  product.row_tiles = row_tiles;
  product.column_tiles = column_tiles;
  product.inner = {4};
  product.chained = {8};
  facts.shared_bytes = shared_bytes;
  facts.shared_bytes_per_block = 232448;
  return facts;
}

TEST_CASE("every block schedule fits its kernel, begins with the cost model's, and is there once") {
  for (const std::int64_t rows : {1, 4, 5, 13}) {
    for (const std::int64_t columns : {1, 3, 8, 25}) {
      for (const std::int64_t bytes : {1000, 50000, 200000}) {
        for (const bool whole : {false, true}) {
          BlockFacts facts = chained_facts(rows, columns, bytes);
          facts.products[0].whole_rows = whole;
          const std::vector<BlockSchedule> list = block_schedules(facts, kAllOfThem);
          CAPTURE(rows, columns, bytes, whole);
          CHECK(list.front() == modelled_block(facts));
          std::set<std::string> texts;
          for (const BlockSchedule& one : list) {
            CHECK(fits(facts, one));
            if (whole) CHECK(one.widths == std::vector<int>{static_cast<int>(columns)});
            texts.insert(schedule_text(one));
          }
          CHECK(texts.size() == list.size());
        }
      }
    }
  }
}

TEST_CASE("a warp keeps the rows of a product if a block is alone and its threads have the registers") {
  const BlockFacts small = chained_facts(4, 8, 50000), large = chained_facts(4, 8, 200000);
  CHECK_FALSE(holds_rows(small, small.products[0], 4));
  CHECK(holds_rows(large, large.products[0], 4));
  CHECK(holds_rows(large, large.products[0], 8));
  CHECK_FALSE(holds_rows(large, large.products[0], 9));
  BlockFacts unchained = large;
  unchained.products[0].chained.clear();
  CHECK_FALSE(holds_rows(unchained, unchained.products[0], 4));
}

TEST_CASE("a block with chained products has no more warps than tiles of rows, by the cost model") {
  CHECK(modelled_block(chained_facts(5, 16, 50000)).threads <= 5 * 32);
  CHECK(modelled_block(chained_facts(1, 16, 50000)).threads == 4 * 32);
}

TEST_CASE("a block takes all tiles of rows in one round if registers allow") {
  // 13 warps: the sums of chained products take 32 or 64 registers of a thread's 128.
  BlockFacts facts = chained_facts(13, 26, 200000);
  CHECK(modelled_block(facts).threads == 13 * 32);
  facts.products[0].inner = {4, 4};
  facts.products[0].chained = {8, 8};
  CHECK(modelled_block(facts).threads == 13 * 32);
  CHECK(modelled_block(facts).widths == std::vector<int>{2});  // wider tiles would leave too few registers
  CHECK_FALSE(fits(facts, {13 * 32, 1, {4}}));
  CHECK(fits(facts, {8 * 32, 1, {4}}));
  facts.products[0].chained = {10, 10};  // 80 registers: 9 warps have 168, in two rounds
  CHECK(modelled_block(facts).threads == 7 * 32);
  for (const BlockSchedule& one : block_schedules(facts, kAllOfThem)) CHECK(one.threads <= 12 * 32);
}

}  // namespace
}  // namespace rewire::test
