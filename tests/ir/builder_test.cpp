// The builder: NumPy's broadcasting made explicit, positions, locations, and what its helpers mean.
#include "ir/builder.h"

#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "tests/ir/run_op.h"
#include "tests/support/catch.h"

using namespace rewire;
using namespace rewire::ir;
using namespace rewire::testing;

namespace {

using Values = std::vector<double>;

struct Fixture {
  Module module;
  Fixture() { module.functions.emplace_back().name = "main"; }
  Function& function() { return module.functions[0]; }
};

std::vector<Opcode> codes(const Function& function) {
  std::vector<Opcode> list;
  for (const Op& op : function.body) list.push_back(op.code);
  return list;
}

}  // namespace

TEST_CASE("binary aligns ranks at the right and grows extents of 1") {
  const std::vector<Tensor> y =
      run({f32({2, 1}, {1, 2}), f32({3}, {10, 20, 30})}, [](Builder& b, const std::vector<Value>& x) {
        return std::vector<Value>{b.add(x[0], x[1]), b.sub(x[1], x[0])};
      });
  CHECK(y[0].type == TensorType{DType::f32, {2, 3}});
  CHECK(y[0].data == Values{11, 21, 31, 12, 22, 32});
  CHECK(y[1].data == Values{9, 19, 29, 8, 18, 28});
}

TEST_CASE("Nothing is inserted where shapes agree, one op where only extents or only ranks differ") {
  Fixture f;
  Builder b(f.module, f.function());
  const Value x = b.argument("x", {DType::f32, {4, 3}});
  b.mul(x, x);
  CHECK(codes(f.function()) == std::vector<Opcode>{Opcode::mul});
  b.broadcast(b.argument("y", {DType::f32, {1, 3}}), {4, 3});
  b.broadcast(b.argument("z", {DType::f32, {3}}), {1, 3});
  CHECK(codes(f.function()) == std::vector<Opcode>{Opcode::mul, Opcode::broadcast, Opcode::reshape});
  CHECK(b.cast(x, DType::f32) == x);
  CHECK(b.reshape(x, {4, 3}) == x);
}

TEST_CASE("Scalars of Python's kind take the operand's dtype") {
  Fixture f;
  Builder b(f.module, f.function());
  const Value x = b.argument("x", {DType::bf16, {2}});
  CHECK(b.type(b.mul(x, 0.5)) == TensorType{DType::bf16, {2}});
}

TEST_CASE("compare and select broadcast all their operands") {
  const std::vector<Tensor> y =
      run({f32({2, 1}, {1, 3}), f32({2}, {2, 4}), f32({}, {9})}, [](Builder& b, const std::vector<Value>& x) {
        return std::vector<Value>{b.select(b.compare("lt", x[0], x[1]), x[2], x[0])};
      });
  CHECK(y[0].type == TensorType{DType::f32, {2, 2}});
  CHECK(y[0].data == Values{9, 9, 3, 9});
}

TEST_CASE("sum_to undoes a broadcast: it adds what was repeated") {
  const Tensor x = f32({2, 2, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const auto sum_to = [&](const Shape& shape) {
    return run({x}, [&](Builder& b, const std::vector<Value>& v) {
      return std::vector<Value>{b.sum_to(v[0], shape)};
    })[0];
  };
  CHECK(sum_to({3}).data == Values{22, 26, 30});
  CHECK(sum_to({3}).type.shape == Shape{3});
  CHECK(sum_to({2, 1}).data == Values{30, 48});
  CHECK(sum_to({2, 1, 1}).data == Values{21, 57});
  CHECK(sum_to({}).data == Values{78});
  CHECK(sum_to({2, 2, 3}).data == x.data);
}

TEST_CASE("mean divides by the number of elements summed") {
  const std::vector<Tensor> y =
      run({f32({2, 3}, {1, 2, 3, 4, 5, 9})}, [](Builder& b, const std::vector<Value>& x) {
        return std::vector<Value>{b.mean(x[0], {-1}), b.mean(x[0], {0, 1}), b.mean(x[0], {})};
      });
  CHECK(y[0].data == Values{2, 6});
  CHECK(y[1].data == Values{4});
  CHECK(y[2].type.shape == Shape{2, 3});
}

TEST_CASE("linear is x W^T + b with PyTorch's layout") {
  const std::vector<Tensor> y =
      run({f32({1, 2, 2}, {1, 2, 3, 4}), f32({3, 2}, {1, 0, 0, 1, 1, 1}), f32({3}, {0, 10, 100})},
          [](Builder& b, const std::vector<Value>& x) {
            return std::vector<Value>{b.linear(x[0], x[1], x[2]), b.linear(x[0], x[1])};
          });
  CHECK(y[0].type == TensorType{DType::f32, {1, 2, 3}});
  CHECK(y[0].data == Values{1, 12, 103, 3, 14, 107});
  CHECK(y[1].data == Values{1, 2, 3, 3, 4, 7});
}

TEST_CASE("slice and concat take negative axes") {
  const std::vector<Tensor> y =
      run({f32({2, 3}, {1, 2, 3, 4, 5, 6})}, [](Builder& b, const std::vector<Value>& x) {
        const Value last = b.slice(x[0], -1, 2, 3);
        const std::vector<Value> parts = {last, x[0]};
        return std::vector<Value>{last, b.concat(parts, -1)};
      });
  CHECK(y[0].data == Values{3, 6});
  CHECK(y[1].data == Values{3, 1, 2, 3, 6, 4, 5, 6});
}

TEST_CASE("Ops go in at the position, which moves on") {
  Fixture f;
  Builder b(f.module, f.function());
  const Value x = b.argument("x", {DType::f32, {2}});
  b.result("y", b.unary(Opcode::exp, x));
  b.set_position(0);
  b.unary(Opcode::neg, b.unary(Opcode::abs, x));
  CHECK(b.position() == 2);
  CHECK(codes(f.function()) == std::vector<Opcode>{Opcode::abs, Opcode::neg, Opcode::exp});
}

TEST_CASE("Scopes nest in locations and end with their block") {
  Fixture f;
  Builder b(f.module, f.function());
  const Value x = b.argument("x", {DType::f32, {2}});
  {
    Builder::Scope block(b, "blocks.3");
    b.unary(Opcode::neg, x);
    {
      Builder::Scope attn(b, "attn");
      b.unary(Opcode::neg, x);
    }
    b.unary(Opcode::neg, x);
  }
  b.unary(Opcode::neg, x);
  const std::vector<Op>& body = f.function().body;
  CHECK(body[0].location == "blocks.3");
  CHECK(body[1].location == "blocks.3.attn");
  CHECK(body[2].location == "blocks.3");
  CHECK(body[3].location.empty());
  b.set_location("loss.grad");
  b.unary(Opcode::neg, x);
  CHECK(body.back().location == "loss.grad");
}

TEST_CASE("Defaults are filled in, so that a reader finds every attribute") {
  Fixture f;
  Builder b(f.module, f.function());
  const Value x = b.argument("x", {DType::f32, {2, 2}});
  b.emit(Opcode::matmul, {x, x});
  CHECK_FALSE(f.function().body[0].attributes.get_bool("transpose_a"));
  b.emit(Opcode::layer_norm, {x});
  CHECK(f.function().body[1].attributes.get_double("epsilon") == 1e-6);
}

TEST_CASE("Shapes that do not broadcast are named, with the place") {
  Fixture f;
  Builder b(f.module, f.function());
  const Value x = b.argument("x", {DType::f32, {2, 3}});
  const Value y = b.argument("y", {DType::f32, {4}});
  CHECK_THROWS_WITH(b.add(x, y), "shapes [2,3] and [4] do not broadcast");
  Builder::Scope scope(b, "head");
  CHECK_THROWS_WITH(b.add(x, y), "shapes [2,3] and [4] do not broadcast, at head");
  CHECK_THROWS_WITH(b.broadcast(x, {3}), "shape [2,3] does not broadcast to [3], at head");
  CHECK_THROWS_WITH(b.sum_to(y, {2, 4}), "shape [4] is not a broadcast of [2,4], at head");
  CHECK_THROWS_AS(b.param("nothing"), InternalError);
  CHECK(f.function().body.empty());
}
