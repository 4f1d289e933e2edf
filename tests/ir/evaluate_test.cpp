// The interpreter: arguments, state, the order of updates, intermediates; and the residual join.
#include "ir/evaluate.h"

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/residual.h"
#include "tests/ir/run_op.h"
#include "tests/support/catch.h"

using namespace rewire;
using namespace rewire::ir;
using namespace rewire::testing;

namespace {

using Values = std::vector<double>;

/// A module with one function "step" and the f32[2] parameters a and b.
struct Program {
  Module module;
  EvalState state;

  Program() {
    module.functions.emplace_back();
    module.functions[0].name = "step";
    for (const char* name : {"a", "b"}) {
      Parameter parameter;
      parameter.name = name;
      parameter.type = {DType::f32, {2}};
      module.add_parameter(parameter);
    }
    state.tensors["a"] = f32({2}, {1, 2});
    state.tensors["b"] = f32({2}, {10, 20});
  }
  Function& function() { return module.functions[0]; }
  std::vector<Tensor> run(const std::vector<Tensor>& arguments = {}) {
    return evaluate(module, function(), arguments, state);
  }
};

Attributes named(const std::string& name) {
  return {{"name", name}};
}

Op fresh_join() {
  Op op;
  op.code = Opcode::residual;
  Join join;
  join.stream = Value{0};
  join.branch = Value{1};
  join.input = Value{2};
  join.shortcut = join.stream;
  join.branch_slot = join.branch;
  join.block = 3;
  join.site = "mlp";
  join.stage = 1;
  join.join_index = 7;
  join.join_count = 12;
  join.heads = 6;
  join.last_weight = "blocks.3.mlp.fc2.weight";
  write_join(op, join);
  return op;
}

}  // namespace

TEST_CASE("param reads state, update writes it") {
  Program p;
  Builder b(p.module, p.function());
  const Value a = b.param("a");
  b.emit(Opcode::update, {b.add(a, 1.0)}, named("a"));
  b.result("old", a);
  CHECK(p.run()[0].data == Values{1, 2});
  CHECK(p.state.tensors["a"].data == Values{2, 3});
  CHECK(p.run()[0].data == Values{2, 3});
}

TEST_CASE("Updates wait for all reads, so that two parameters can swap") {
  Program p;
  Builder b(p.module, p.function());
  const Value a = b.param("a");
  const Value c = b.param("b");
  b.emit(Opcode::update, {c}, named("a"));
  b.emit(Opcode::update, {a}, named("b"));
  p.run();
  CHECK(p.state.tensors["a"].data == Values{10, 20});
  CHECK(p.state.tensors["b"].data == Values{1, 2});
}

TEST_CASE("An update whose predicate is false leaves the state") {
  Program p;
  Builder b(p.module, p.function());
  const Value finite = b.argument("finite", {DType::i1, {}});
  b.emit(Opcode::update, {b.param("b"), finite}, named("a"));
  p.run({scalar(DType::i1, 0)});
  CHECK(p.state.tensors["a"].data == Values{1, 2});
  p.run({scalar(DType::i1, 1)});
  CHECK(p.state.tensors["a"].data == Values{10, 20});
}

TEST_CASE("is_training answers what the state says") {
  Program p;
  Builder b(p.module, p.function());
  b.result("training", b.emit(Opcode::is_training, {}, {}, TensorType{DType::i1, {}}));
  CHECK(p.run()[0].data == Values{0});
  p.state.training = true;
  CHECK(p.run()[0].data == Values{1});
}

TEST_CASE("An argument can be a result, twice, and unused results are allowed") {
  Program p;
  Builder b(p.module, p.function());
  const Value x = b.argument("x", {DType::f32, {2}});
  b.emit_all(Opcode::sort, std::vector<Value>{x}, {{"axis", std::int64_t{0}}});
  b.result("first", x);
  b.result("second", x);
  const std::vector<Tensor> results = p.run({f32({2}, {4, 3})});
  CHECK(results[0].data == Values{4, 3});
  CHECK(results[1].data == Values{4, 3});
}

TEST_CASE("evaluate_until shows each result in order, stops when told, and applies no update") {
  Program p;
  Builder b(p.module, p.function());
  const Value x = b.argument("x", {DType::f32, {2}});
  const Value negative = b.unary(Opcode::neg, x);
  const Value both = b.add(negative, b.param("a"));
  b.result("y", b.mul(both, both));
  b.emit_all(Opcode::update, std::vector<Value>{both}, {{"name", std::string("a")}});
  const Values before = p.state.tensors.at("a").data;
  std::vector<Opcode> seen;
  Values last;
  evaluate_until(p.function(), {f32({2}, {4, 3})}, p.state,
                 [&](const Op& op, Value result, const Tensor& tensor) {
                   seen.push_back(op.code);
                   last = tensor.data;
                   return result != both;
                 });
  CHECK(seen == std::vector<Opcode>{Opcode::neg, Opcode::param, Opcode::add});
  CHECK(last == Values{-3, -1});
  evaluate_until(p.function(), {f32({2}, {4, 3})}, p.state,
                 [](const Op&, Value, const Tensor&) { return true; });
  CHECK(p.state.tensors.at("a").data == before);
}

TEST_CASE("Wrong arguments and wrong state are refused by name") {
  Program p;
  Builder b(p.module, p.function());
  b.argument("x", {DType::f32, {2}});
  Builder::Scope scope(b, "blocks.0");
  b.result("a", b.param("a"));
  CHECK_THROWS_WITH(p.run(), "function 'step' takes 1 arguments, got 0");
  CHECK_THROWS_WITH(p.run({f32({3}, {1, 2, 3})}), "argument 'x' of function 'step' is f32[2], got f32[3]");
  CHECK_THROWS_WITH(p.run({f32({2}, {1})}),
                    "argument 'x' of function 'step' has 1 elements, its type f32[2] says 2");
  p.state.tensors["a"] = f32({3}, {1, 2, 3});
  CHECK_THROWS_WITH(
      p.run({f32({2}, {1, 2})}),
      "param at blocks.0: the state holds 'a' as f32[3] with 3 elements, the program reads f32[2]");
  p.state.tensors.erase("a");
  CHECK_THROWS_WITH(p.run({f32({2}, {1, 2})}), "param at blocks.0: the state holds no 'a'");
  CHECK_THROWS_AS(p.run({f32({2}, {1, 2})}), UserError);
}

TEST_CASE("residual adds its terms, not the operands it only knows") {
  const Attributes facts = {{"block", std::int64_t{0}},
                            {"site", std::string("attn")},
                            {"join_index", std::int64_t{0}},
                            {"join_count", std::int64_t{1}}};
  std::vector<Tensor> operands;
  for (double value : {1000.0, 2000.0, 4000.0, 1.0, 2.0, 4.0, 8.0})
    operands.push_back(f32({1, 1, 1}, {value}));
  CHECK(values_of(Opcode::residual, operands, facts) == Values{15});
  operands.resize(5);
  CHECK(values_of(Opcode::residual, operands, facts) == Values{3});
  Attributes cleared = facts;
  cleared.set("has_shortcut", false);
  operands.resize(4);
  CHECK(values_of(Opcode::residual, operands, cleared) == Values{1});
}

TEST_CASE("A join reads back as it was written") {
  Op op = fresh_join();
  CHECK(op.operands == std::vector<Value>{{0}, {1}, {2}, {0}, {1}});
  Join join = read_join(op);
  CHECK(join.describe() == "blocks.3.mlp");
  CHECK(join.stream == Value{0});
  CHECK(join.shortcut == Value{0});
  CHECK(join.branch_slot == Value{1});
  CHECK(join.paths.empty());
  CHECK(join.heads == 6);
  CHECK(join.channel_axis == 2);
  CHECK(join.scope == "encoder");
  CHECK(join.last_weight == "blocks.3.mlp.fc2.weight");

  join.shortcut = Value{};
  join.shortcut_owner = "first";
  join.branch_slot = Value{8};
  join.branch_owner = "second";
  join.paths = {Value{9}, Value{10}};
  write_join(op, join);
  CHECK(op.operands == std::vector<Value>{{0}, {1}, {2}, {8}, {9}, {10}});
  const Join again = read_join(op);
  CHECK_FALSE(again.shortcut);
  CHECK(again.branch_slot == Value{8});
  CHECK(again.paths == std::vector<Value>{{9}, {10}});
  CHECK(again.shortcut_owner == "first");
  CHECK(again.branch_owner == "second");
  CHECK(again.join_index == 7);
}

TEST_CASE("A join within something has its location as its place; any other has its block's number") {
  Op op = fresh_join();
  op.location = "stages.2.blocks.1.mlp";
  CHECK(read_join(op).place == "stages.2.blocks.1");
  CHECK(read_join(op).describe() == "stages.2.blocks.1.mlp");
  for (const char* location : {"", "mlp", ".mlp", "stages.2.attn", "blocks.1.mlp", "encoder.layer.1.mlp",
                               "a.blocks.mlp", "a.blocks.1.x.mlp"}) {
    op.location = location;
    CHECK(read_join(op).place == "blocks.3");
  }
  op.attributes.set("scope", std::string("decoder"));
  CHECK(read_join(op).describe() == "decoder_blocks.3.mlp");
}

TEST_CASE("find_joins lists the joins of a function in order; other ops are no joins") {
  Function function;
  function.body = {Op{}, fresh_join(), Op{}, fresh_join()};
  CHECK(find_joins(function) == std::vector<std::size_t>{1, 3});
  CHECK_THROWS_AS(read_join(function.body[0]), InternalError);
}
