// One module that is right, and for every numbered invariant the ways to break exactly it.
#include <functional>
#include <string>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/support/catch.h"

namespace rewire::ir {
namespace {

Module sound_module() {
  return parse(R"(
module @m {
  param @w : f32[4,3] {init = "ones"}
  state @train.step : i64[]
  func @f(%x: f32[2,5,4], %branch: f32[2,5,4], %seed: i64[], %flag: i1[]) -> (y: f32[2,5,3], z: f32[2,5,4]) {
    %w = param {name = "w"} : f32[4,3]
    %step = param {name = "train.step"} : i64[]
    %y = matmul %x, %w : f32[2,5,3] loc("head")
    %sum = sum %x {axes = [1]} : f32[2,1,4]
    %noise = random_normal %seed, %step {stream = "noise"} : f32[2,5,4]
    %z = residual %x, %branch, %x, %x, %branch {block = 0, join_count = 1, join_index = 0, site = "attn"}
    update %w, %flag {name = "w"}
    return y = %y, z = %z
  }
}
)");
}

Function& f(Module& module) {
  return module.functions[0];
}
Op& op(Module& module, Opcode code) {
  for (Op& candidate : f(module).body) {
    if (candidate.code == code) return candidate;
  }
  throw InternalError("the module has no such op");
}

/// Breaks a sound module and expects the first violation to be `invariant`, in function f, at that op.
void expect_violation(const std::string& invariant, const std::function<void(Module&)>& break_it,
                      const std::string& message_part = "") {
  Module module = sound_module();
  REQUIRE_FALSE(find_violation(module));
  break_it(module);
  const std::optional<Violation> violation = find_violation(module);
  REQUIRE(violation);
  CHECK(violation->message.substr(0, invariant.size() + 2) == invariant + ": ");
  CHECK_THAT(violation->message, REWIRE_CATCH_CONTAINS(message_part));
  CHECK_THROWS_AS(verify(module), UserError);
}

}  // namespace

TEST_CASE("A sound module passes", "[ir][verify]") {
  CHECK_NOTHROW(verify(sound_module()));
}

TEST_CASE("V1: names are unique and not empty", "[ir][verify]") {
  expect_violation("V1", [](Module& m) { m.parameters[1].name = "w"; }, "parameter 'w' is defined twice");
  expect_violation("V1", [](Module& m) { m.parameters[1].name = ""; }, "parameter without a name");
  expect_violation(
      "V1", [](Module& m) { m.functions.push_back(m.functions[0]); }, "function 'f' is defined twice");
  expect_violation("V1", [](Module& m) { f(m).name = ""; }, "function without a name");
  expect_violation("V1", [](Module& m) { f(m).arguments[1].name = "x"; }, "argument 'x' is defined twice");
  expect_violation("V1", [](Module& m) { f(m).results[1].name = "y"; }, "result 'y' is defined twice");
  expect_violation("V1", [](Module& m) { f(m).results[1].name = ""; }, "result without a name");
}

TEST_CASE("V2: every value is defined once, before its first use, and in range", "[ir][verify]") {
  expect_violation(
      "V2", [](Module& m) { std::swap(f(m).body[0], f(m).body[2]); }, "not defined before this use");
  expect_violation("V2", [](Module& m) { f(m).body.erase(f(m).body.begin()); }, "matmul at head");
  expect_violation("V2", [](Module& m) { op(m, Opcode::sum).operands[0] = Value{1000}; }, "value id 1000");
  expect_violation("V2", [](Module& m) { op(m, Opcode::sum).operands[0] = Value{}; }, "value id -1");
  expect_violation("V2", [](Module& m) { op(m, Opcode::sum).results[0] = Value{1000}; }, "out of range");
  expect_violation(
      "V2", [](Module& m) { op(m, Opcode::sum).results = op(m, Opcode::matmul).results; }, "defined twice");
  expect_violation(
      "V2", [](Module& m) { f(m).arguments[1].value = f(m).arguments[0].value; }, "argument 'branch'");
}

TEST_CASE("V3: operand and result counts fit the op table", "[ir][verify]") {
  expect_violation("V3", [](Module& m) { op(m, Opcode::matmul).operands.pop_back(); }, "1 operands");
  expect_violation("V3", [](Module& m) { op(m, Opcode::sum).operands.push_back(Value{0}); }, "2 operands");
  expect_violation("V3", [](Module& m) { op(m, Opcode::sum).results.clear(); }, "0 results");
  expect_violation("V3", [](Module& m) { op(m, Opcode::residual).operands.resize(2); }, "2 operands");
}

TEST_CASE("V4: attributes are known, complete and of the right kind", "[ir][verify]") {
  expect_violation(
      "V4", [](Module& m) { op(m, Opcode::sum).attributes.set("axis", std::int64_t{1}); },
      "unknown attribute 'axis'");
  expect_violation("V4", [](Module& m) { op(m, Opcode::sum).attributes.erase("axes"); }, "'axes' is missing");
  expect_violation(
      "V4", [](Module& m) { op(m, Opcode::matmul).attributes.erase("transpose_a"); },
      "'transpose_a' is missing");
  expect_violation(
      "V4", [](Module& m) { op(m, Opcode::sum).attributes.set("axes", Doubles{1.0}); }, "wrong kind");
}

TEST_CASE("V5: result types are what the shape rule infers", "[ir][verify]") {
  expect_violation(
      "V5",
      [](Module& m) {
        f(m).types[static_cast<std::size_t>(op(m, Opcode::sum).results[0].id)] =
            TensorType{DType::f32, {2, 4}};
      },
      "result 0 is f32[2,4], but the operands give f32[2,1,4]");
  expect_violation("V5", [](Module& m) { op(m, Opcode::sum).attributes.set("axes", Ints{3}); }, "sum");
  expect_violation(
      "V5", [](Module& m) { op(m, Opcode::matmul).attributes.set("transpose_a", true); }, "matmul at head");
}

TEST_CASE("V6: param and update name a parameter of the same type", "[ir][verify]") {
  expect_violation(
      "V6", [](Module& m) { op(m, Opcode::update).attributes.set("name", "v"); }, "no parameter 'v'");
  expect_violation(
      "V6", [](Module& m) { op(m, Opcode::param).attributes.set("name", "v"); }, "no parameter 'v'");
  expect_violation(
      "V6", [](Module& m) { op(m, Opcode::update).attributes.set("name", "train.step"); },
      "'train.step' is i64[], not f32[4,3]");
  expect_violation("V6", [](Module& m) { m.parameters[0].type.dtype = DType::f64; }, "'w' is f64[4,3]");
}

TEST_CASE("V7: an update follows all reads of its state, and is the only one", "[ir][verify]") {
  expect_violation(
      "V7",
      [](Module& m) {
        Op read = op(m, Opcode::param);
        read.results[0] = f(m).new_value({DType::f32, {4, 3}});
        f(m).body.push_back(read);
      },
      "read after its update");
  expect_violation("V7", [](Module& m) { f(m).body.push_back(f(m).body.back()); }, "updated twice");
}

TEST_CASE("V8: a join's stream, slots, paths and result agree, and changed slots name their owner",
          "[ir][verify]") {
  auto grow = [](Module& m, std::size_t slot) {
    const Value odd = f(m).new_value({DType::f64, {2, 5, 4}});
    f(m).arguments.push_back({"odd", odd});
    Op& join = op(m, Opcode::residual);
    join.operands.resize(std::max(join.operands.size(), slot + 1));
    join.operands[slot] = odd;
    join.attributes.set("branch_owner", "someone");
    join.attributes.set("shortcut_owner", "someone");
  };
  for (std::size_t slot : {std::size_t{1}, std::size_t{3}, std::size_t{4}, std::size_t{5}}) {
    CAPTURE(slot);
    expect_violation("V8", [&](Module& m) { grow(m, slot); }, "the stream is f32[2,5,4], but");
  }
  expect_violation(
      "V8",
      [](Module& m) {
        f(m).types[static_cast<std::size_t>(op(m, Opcode::residual).results[0].id)].dtype = DType::f64;
      },
      "or the result is f64[2,5,4]");
  expect_violation(
      "V8", [](Module& m) { op(m, Opcode::residual).operands[3] = op(m, Opcode::residual).operands[1]; },
      "the shortcut slot was changed but has no owner");
  expect_violation(
      "V8", [](Module& m) { op(m, Opcode::residual).operands[4] = op(m, Opcode::residual).operands[0]; },
      "the branch slot was changed but has no owner");
  expect_violation(
      "V8",
      [](Module& m) {
        Op& join = op(m, Opcode::residual);
        join.attributes.set("has_shortcut", false);
        join.operands.erase(join.operands.begin() + 3);
      },
      "the shortcut slot was changed but has no owner");
}

TEST_CASE("V8: an owner may leave a slot as it was", "[ir][verify]") {
  Module module = sound_module();
  op(module, Opcode::residual).attributes.set("shortcut_owner", "someone");
  op(module, Opcode::residual).attributes.set("branch_owner", "someone");
  CHECK_FALSE(find_violation(module));
}

TEST_CASE("V9: extents, ranks and element counts are limited", "[ir][verify]") {
  expect_violation("V9", [](Module& m) { m.parameters[0].type.shape = {0}; }, "extent below 1");
  expect_violation("V9", [](Module& m) { m.parameters[0].type.shape = {1 << 20, 1 << 20}; }, "2^40 elements");
  expect_violation(
      "V9", [](Module& m) { f(m).types[0].shape = {std::int64_t{1} << 32, std::int64_t{1} << 32}; },
      "argument 'x'");
  expect_violation("V9", [](Module& m) { f(m).types[0].shape = Shape(17, 1); }, "at most 16");
  expect_violation(
      "V9",
      [](Module& m) {
        f(m).types[static_cast<std::size_t>(op(m, Opcode::sum).results[0].id)].shape = {2, -1, 4};
      },
      "extent below 1");
  CHECK(type_fault({DType::u8, {(std::int64_t{1} << 40) - 1}}).empty());
  CHECK(type_fault({DType::f32, {}}).empty());
}

TEST_CASE("V10: results are defined values and random streams have names", "[ir][verify]") {
  expect_violation("V10", [](Module& m) { f(m).results[0].value = Value{}; }, "result 'y'");
  expect_violation("V10", [](Module& m) { f(m).results[0].value = f(m).new_value({}); }, "result 'y'");
  expect_violation(
      "V10", [](Module& m) { op(m, Opcode::random_normal).attributes.set("stream", ""); },
      "the stream name is empty");
}

TEST_CASE("A violation says where it is", "[ir][verify]") {
  Module module = sound_module();
  op(module, Opcode::sum).attributes.set("axes", Ints{3});
  const std::optional<Violation> violation = find_violation(module);
  REQUIRE(violation);
  CHECK(violation->function == 0);
  CHECK(violation->op == 3);
  CHECK_THAT(violation->message, REWIRE_CATCH_CONTAINS("in @f, sum (line 9)"));
}

}  // namespace rewire::ir
