// Each rule of codegen/tile/verify.cpp, broken once. The message names the kernel, the node and the rule.
#include <functional>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/tile_builder.h"

namespace rewire::test {
namespace {

using namespace codegen::tile;  // NOLINT: the subject of this file
using ir::DType;
using ir::Opcode;

/// A node of every kind; the comments give section, node and value numbers.
Kernel sound() {
  TileBuilder t("k");
  const auto b = t.outer("b", 2);
  const auto r = t.row("r", 10);
  const auto m = t.lane("m", 3);
  const auto n = t.lane("n", 4);
  const auto c = t.lane("c", 8);
  const auto x = t.input("x");
  const auto y = t.output("y");
  const auto seed = t.load(t.input("seed", DType::i64), {}, 0, DType::i64);  // prologue 0, %0
  const auto flag = t.op(Opcode::compare, {seed, seed}, "eq");               // prologue 1, %1
  const auto sum = t.carry(t.constant(0, {c}));                              // prologue 2, %2, %3
  t.body();
  const auto a = t.load(x, {{b, 240}, {r, 24}, {m, 8}, {c, 1}});      // body 0, %4
  const auto row = t.index(r, DType::i32);                            // body 1, %5
  const auto i = t.gather(x, {{n, 8}, {c, 1}}, row, 8, 10);           // body 2, %6
  const auto u = t.random(false, seed, seed, 255, {{r, 8}, {c, 1}});  // body 3, %7
  const auto d = t.dot(a, i, c);                                      // body 4, %8
  const auto total = t.sum(a, {m});                                   // body 5, %9
  const auto next = t.op(Opcode::add, {sum, total});                  // body 6, %10
  const auto last = t.carry_next(sum, next);                          // %11
  t.store(y, u, {{r, 8}, {c, 1}}, 0, 0, flag);                        // body 7
  t.store(y, t.max(d, {m, n}), {{r, 1}});                             // body 8, %12; body 9
  t.epilogue();
  t.store(y, last, {{c, 1}}, 30, 8);  // epilogue 0
  return t.kernel();
}

std::string broken(const std::function<void(Kernel&)>& damage) {
  Kernel kernel = sound();
  damage(kernel);
  return message_of<InternalError>([&] { verify(kernel); });
}

template <class Node>
Node& body(Kernel& kernel, std::size_t index) {
  return std::get<Node>(kernel.body[index]);
}

constexpr std::int32_t kC = 4;  // the axis c

TEST_CASE("a sound kernel passes") {
  CHECK_NOTHROW(verify(sound()));
}

TEST_CASE("rule 1: axes and partitions") {
  CHECK(broken([](Kernel& k) { k.axes[2].name = "m_0"; }) ==
        "tile kernel k, axes: axis 2 has the name 'm_0'; letters and digits are needed");
  CHECK(broken([](Kernel& k) { k.axes[2].name = "b"; }) == "tile kernel k, axes: two axes are called b");
  CHECK(broken([](Kernel& k) { k.axes[2].extent = 0; }) == "tile kernel k, axes: axis m has extent 0");
  CHECK(broken([](Kernel& k) { k.partitions = 11; }) == "tile kernel k, axes: 11 partitions of 10 rows");
  CHECK(broken([](Kernel& k) { k.partitions = 0; }) == "tile kernel k, axes: 0 partitions of 10 rows");
  CHECK(broken([](Kernel& k) { k.axes[1].use = AxisUse::outer; }) ==
        "tile kernel k, axes: a body without row axes");
}

TEST_CASE("rule 2: values are defined once, before their use, in their section") {
  CHECK(broken([](Kernel& k) { std::swap(k.body[4], k.body[0]); }) ==
        "tile kernel k, body node 0 (dot): value %4 is used before it is defined");
  CHECK(broken([](Kernel& k) { body<Index>(k, 1).result = {0}; }) ==
        "tile kernel k, body node 1 (index): value %0 is defined twice");
  CHECK(broken([](Kernel& k) { body<Reduce>(k, 5).operand = {99}; }) ==
        "tile kernel k, body node 5 (sum): value %99 does not exist");
  CHECK(broken([](Kernel& k) { std::get<Store>(k.epilogue[0]).value = {9}; }) ==
        "tile kernel k, epilogue node 0 (store): value %9 is used before it is defined");
  CHECK(broken([](Kernel& k) { body<Pointwise>(k, 6).operands[0] = {11}; }) ==
        "tile kernel k, body node 6 (add): value %11 is used before it is defined");
}

TEST_CASE("rule 3: lanes are lane axes, ascending") {
  CHECK(broken([](Kernel& k) { k.values[4].lanes = {0, kC}; }) ==
        "tile kernel k, value %4: lane 0 is not a lane axis");
  CHECK(broken([](Kernel& k) { k.values[4].lanes = {kC, 2}; }) ==
        "tile kernel k, value %4: lanes are not ascending");
}

TEST_CASE("rule 4: accesses have an argument and a stride for every axis, row strides in the body only") {
  CHECK(broken([](Kernel& k) { body<Load>(k, 0).access.strides.pop_back(); }) ==
        "tile kernel k, body node 0 (load): 4 strides for 5 axes");
  CHECK(broken([](Kernel& k) { body<Load>(k, 0).access.argument = 3; }) ==
        "tile kernel k, body node 0 (load): argument 3 does not exist");
  CHECK(broken([](Kernel& k) { std::get<Store>(k.epilogue[0]).access.strides[1] = 8; }) ==
        "tile kernel k, epilogue node 0 (store): a stride along row axis r outside of the body");
}

TEST_CASE("rule 5: loads") {
  CHECK(broken([](Kernel& k) { k.arguments[0].use = ArgumentUse::write; }) ==
        "tile kernel k, body node 0 (load): argument 0 is only written");
  CHECK(broken([](Kernel& k) { body<Load>(k, 0).access.strides[3] = 1; }) ==
        "tile kernel k, body node 0 (load): the result lacks lane axis n");
  CHECK(broken([](Kernel& k) { body<Load>(k, 2).index_limit = 0; }) ==
        "tile kernel k, body node 2 (gather): the index limit is 0");
  CHECK(broken([](Kernel& k) { k.values[5].dtype = DType::f32; }) ==
        "tile kernel k, body node 2 (gather): the index is f32");
}

TEST_CASE("rule 6: stores") {
  CHECK(broken([](Kernel& k) { k.arguments[1].use = ArgumentUse::read; }) ==
        "tile kernel k, body node 7 (store): argument 1 is only read");
  CHECK(broken([](Kernel& k) { body<Store>(k, 7).access.strides[kC] = 0; }) ==
        "tile kernel k, body node 7 (store): no stride along the value's lane axis c");
  CHECK(broken([](Kernel& k) { body<Store>(k, 7).predicate = {0}; }) ==
        "tile kernel k, body node 7 (store): the predicate is not an i1 scalar");
}

TEST_CASE("rule 7: pointwise nodes") {
  CHECK(broken([](Kernel& k) { body<Pointwise>(k, 6).code = Opcode::matmul; }) ==
        "tile kernel k, body node 6 (matmul): matmul is not a pointwise op");
  CHECK(broken([](Kernel& k) { body<Pointwise>(k, 6).operands.pop_back(); }) ==
        "tile kernel k, body node 6 (add): 1 operands, 2 are needed");
  CHECK(broken([](Kernel& k) { body<Pointwise>(k, 6).operands[1] = {4}; }) ==
        "tile kernel k, body node 6 (add): the result's lanes are not the union of the operands'");
  CHECK(broken([](Kernel& k) { k.values[10].dtype = DType::f64; }) ==
        "tile kernel k, body node 6 (add): operand 0 is f32, not f64");
  CHECK(broken([](Kernel& k) { std::get<Pointwise>(k.prologue[1]).direction = "eqq"; }) ==
        "tile kernel k, prologue node 1 (compare): direction 'eqq'");
  CHECK(broken([](Kernel& k) { k.values[1].dtype = DType::i64; }) ==
        "tile kernel k, prologue node 1 (compare): the result is i64, not i1");
}

TEST_CASE("rule 8: indices") {
  CHECK(broken([](Kernel& k) { body<Index>(k, 1).axis = 5; }) ==
        "tile kernel k, body node 1 (index): axis 5 does not exist");
  CHECK(broken([](Kernel& k) { body<Index>(k, 1).axis = kC; }) ==
        "tile kernel k, body node 1 (index): the result's lanes differ from the axis");
  CHECK(broken([](Kernel& k) { k.prologue[0] = Index{{0}, 1}; }) ==
        "tile kernel k, prologue node 0 (index): a row index outside of the body");
}

TEST_CASE("rule 9: reductions") {
  CHECK(broken([](Kernel& k) { body<Reduce>(k, 5).axes = {}; }) ==
        "tile kernel k, body node 5 (sum): no axes to reduce over");
  CHECK(broken([](Kernel& k) { body<Reduce>(k, 5).axes = {3}; }) ==
        "tile kernel k, body node 5 (sum): axis 3 is not a lane of the operand");
  CHECK(broken([](Kernel& k) { body<Reduce>(k, 8).axes = {3, 2}; }) ==
        "tile kernel k, body node 8 (max): the axes are not ascending");
  CHECK(broken([](Kernel& k) { body<Reduce>(k, 5).axes = {kC}; }) ==
        "tile kernel k, body node 5 (sum): the result's lanes are not the remaining ones");
  CHECK(broken([](Kernel& k) { k.values[9].dtype = DType::f64; }) ==
        "tile kernel k, body node 5 (sum): from f32 to f64; f32, f64, i64, i32 and u8 add up in their own "
        "dtype");
}

TEST_CASE("rule 10: dots") {
  CHECK(broken([](Kernel& k) { body<Dot>(k, 4).contract = 2; }) ==
        "tile kernel k, body node 4 (dot): a and b must share only the contracted lane");
  CHECK(broken([](Kernel& k) { std::swap(body<Dot>(k, 4).b.id, body<Dot>(k, 4).a.id); }) ==
        "(nothing was thrown)");  // both have two lanes
  CHECK(broken([](Kernel& k) { k.values[8].lanes = {2}; }) ==
        "tile kernel k, body node 4 (dot): the result's lanes are not the remaining ones");
  CHECK(broken([](Kernel& k) { k.values[8].dtype = DType::f64; }) ==
        "tile kernel k, body node 4 (dot): %8 is f64, not f32");
  CHECK(broken([](Kernel& k) {
          k.values.push_back({DType::f32, {kC}});
          k.body.insert(k.body.begin(), Constant{{13}, 1});
          body<Dot>(k, 5).b = {13};
        }) == "tile kernel k, body node 5 (dot): b has 1 lanes, 2 are needed");
}

TEST_CASE("rule 11: random numbers") {
  CHECK(broken([](Kernel& k) { body<Random>(k, 3).step = {5}; }) ==
        "tile kernel k, body node 3 (uniform): %5 is not an i64 scalar");
  CHECK(broken([](Kernel& k) { k.values[7].dtype = DType::bf16; }) ==
        "tile kernel k, body node 3 (uniform): the result is bf16");
  CHECK(broken([](Kernel& k) { body<Random>(k, 3).element.strides[2] = 5; }) ==
        "tile kernel k, body node 3 (uniform): the result lacks lane axis m");
}

TEST_CASE("rule 12: carried values") {
  CHECK(broken([](Kernel& k) { k.carried[0].initial = {4}; }) ==
        "tile kernel k, carried: value %4 is used before it is defined");
  CHECK(broken([](Kernel& k) { k.carried[0].next = {4}; }) ==
        "tile kernel k, carried: %2 and %4 have different types");
  CHECK(broken([](Kernel& k) { k.values[11].dtype = DType::f64; }) ==
        "tile kernel k, carried: %2 and %11 have different types");
}

TEST_CASE("rule 13: row bounds") {
  const auto bounded = [](TileValue end) {
    return broken([&](Kernel& k) { k.bounds = RowBounds{end, end, 1}; });
  };
  CHECK(bounded({0}) == "tile kernel k, row bounds: %0 is not an i32 scalar");
  CHECK(bounded({2}) == "tile kernel k, row bounds: %2 is not an i32 scalar");
  CHECK(bounded({5}) == "tile kernel k, row bounds: value %5 is used before it is defined");
  CHECK(broken([](Kernel& k) {
          k.partitions = 2;
          k.bounds = RowBounds{{0}, {0}, 1};
        }) == "tile kernel k, row bounds: 2 partitions");
}

TEST_CASE("rule 14: short tiles") {
  const auto with = [](std::vector<ShortTile> tiles) {
    return broken([&](Kernel& k) { k.short_tiles = std::move(tiles); });
  };
  Kernel kernel = sound();
  kernel.short_tiles = {{1, kC, 75}, {0, 2, 6}};  // 10 tiles of 8, 2 tiles of 3
  CHECK_NOTHROW(verify(kernel));
  CHECK(with({{kC, kC, 75}}) == "tile kernel k, short tiles: axes c and c");
  CHECK(with({{1, 0, 75}}) == "tile kernel k, short tiles: axes r and b");
  CHECK(with({{1, kC, 81}}) == "tile kernel k, short tiles: 81 points in 10 tiles");
  CHECK(with({{1, kC, 72}}) == "tile kernel k, short tiles: 72 points in 10 tiles");
  CHECK(with({{1, kC, 75}, {0, kC, 15}}) == "tile kernel k, short tiles: two of them share an axis");
}

}  // namespace
}  // namespace rewire::test
