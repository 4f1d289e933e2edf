// What a bad op is told: one line with the op, its place, the reason and the operand types.
#include <functional>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/op_info.h"
#include "tests/support/catch.h"

using namespace rewire;
using namespace rewire::ir;

namespace {

/// Values of many types to build bad ops from.
struct Bench {
  Module module;
  Function& function;
  Builder b;
  Value scalar, f4, f23, f32_, f42, f234, f2344, i4, i23, flag, flag23, seed;

  Bench() : function(module.functions.emplace_back()), b(module, function) {
    function.name = "main";
    Parameter weight;
    weight.name = "blocks.0.fc.weight";
    weight.type = {DType::f32, {2, 3}};
    module.add_parameter(weight);
    scalar = b.argument("scalar", {DType::f32, {}});
    f4 = b.argument("f4", {DType::f32, {4}});
    f23 = b.argument("f23", {DType::f32, {2, 3}});
    f32_ = b.argument("f32", {DType::f32, {3, 2}});
    f42 = b.argument("f42", {DType::f32, {4, 2}});
    f234 = b.argument("f234", {DType::f32, {2, 3, 4}});
    f2344 = b.argument("f2344", {DType::f32, {2, 3, 4, 4}});
    i4 = b.argument("i4", {DType::i64, {4}});
    i23 = b.argument("i23", {DType::i32, {2, 3}});
    flag = b.argument("flag", {DType::i1, {}});
    flag23 = b.argument("flag23", {DType::i1, {2, 3}});
    seed = b.argument("seed", {DType::i64, {}});
  }
};

using Build = std::function<void(Bench&)>;

void refuses(const std::string& message, const Build& build) {
  Bench bench;
  INFO(message);
  try {
    build(bench);
    FAIL("accepted");
  } catch (const UserError& error) {
    CHECK(error.what() == message);
  }
  CHECK(bench.function.body.empty());
}

TensorType f32(Shape shape) {
  return {DType::f32, std::move(shape)};
}
Attributes axis(std::int64_t value) {
  return {{"axis", value}};
}
Attributes axes(Ints value) {
  return {{"axes", std::move(value)}};
}

Attributes join_facts() {
  return {{"block", std::int64_t{0}},
          {"site", std::string("attn")},
          {"join_index", std::int64_t{0}},
          {"join_count", std::int64_t{2}}};
}
Attributes join_facts(const std::string& name, const Attribute& value) {
  Attributes facts = join_facts();
  facts.set(name, value);
  return facts;
}

}  // namespace

TEST_CASE("An op is named with its location and line, where it has them") {
  Op op;
  op.code = Opcode::add;
  CHECK(describe(op) == "add");
  op.line = 12;
  CHECK(describe(op) == "add (line 12)");
  op.location = "blocks.0";
  CHECK(describe(op) == "add at blocks.0 (line 12)");
}

TEST_CASE("The location stands in the message") {
  refuses("matmul at blocks.0.attn.qkv: inner extents 3 and 4 differ: f32[2,3] x f32[4,2]", [](Bench& t) {
    Builder::Scope block(t.b, "blocks.0.attn");
    Builder::Scope qkv(t.b, "qkv");
    t.b.matmul(t.f23, t.f42);
  });
}

TEST_CASE("Operand counts") {
  refuses("neg: takes 1 operand, got 2: f32[4] x f32[4]",
          [](Bench& t) { t.b.emit(Opcode::neg, {t.f4, t.f4}); });
  refuses("add: takes 2 operands, got 1: f32[4]", [](Bench& t) { t.b.emit(Opcode::add, {t.f4}); });
  refuses("layer_norm: takes 1 to 3 operands, got 4: f32[4] x f32[4] x f32[4] x f32[4]",
          [](Bench& t) { t.b.emit(Opcode::layer_norm, {t.f4, t.f4, t.f4, t.f4}); });
  refuses("concat: takes at least 1 operand, got 0",
          [](Bench& t) { t.b.emit(Opcode::concat, std::vector<Value>{}, axis(0)); });
  refuses("neg: operand 0 is not a value of function 'main'",
          [](Bench& t) { t.b.emit(Opcode::neg, {Value{}}); });
  refuses("add: operand 1 is not a value of function 'main'",
          [](Bench& t) { t.b.emit(Opcode::add, {t.f4, Value{99}}); });
}

TEST_CASE("Attributes: unknown, missing, of another kind") {
  refuses("matmul: unknown attribute 'transpos_a' (did you mean 'transpose_a'?): f32[2,3] x f32[3,2]",
          [](Bench& t) { t.b.emit(Opcode::matmul, {t.f23, t.f32_}, {{"transpos_a", true}}); });
  refuses("matmul: unknown attribute 'beta': the op takes transpose_a, transpose_b: f32[2,3] x f32[3,2]",
          [](Bench& t) { t.b.emit(Opcode::matmul, {t.f23, t.f32_}, {{"beta", 1.0}}); });
  refuses("neg: unknown attribute 'axis': the op takes none: f32[4]",
          [](Bench& t) { t.b.emit(Opcode::neg, {t.f4}, axis(0)); });
  refuses("sum: attribute 'axes' is missing (a list of integers): f32[4]",
          [](Bench& t) { t.b.emit(Opcode::sum, {t.f4}); });
  refuses("sum: attribute 'axes' must be a list of integers, not an integer: f32[4]",
          [](Bench& t) { t.b.emit(Opcode::sum, {t.f4}, {{"axes", std::int64_t{0}}}); });
  refuses("softmax: attribute 'axis' must be an integer, not a number: f32[4]",
          [](Bench& t) { t.b.emit(Opcode::softmax, {t.f4}, {{"axis", 1.0}}); });
  refuses("layer_norm: attribute 'epsilon' must be a number, not a string: f32[4]",
          [](Bench& t) { t.b.emit(Opcode::layer_norm, {t.f4}, {{"epsilon", std::string("small")}}); });
  refuses("matmul: attribute 'transpose_a' must be true or false, not an integer: f32[2,3] x f32[3,2]",
          [](Bench& t) { t.b.emit(Opcode::matmul, {t.f23, t.f32_}, {{"transpose_a", std::int64_t{1}}}); });
}

TEST_CASE("Result types: missing where asked for, wrong where not, too large") {
  refuses("reshape: the result type must be given: f32[4]",
          [](Bench& t) { t.b.emit(Opcode::reshape, {t.f4}); });
  refuses("neg: the result is f32[4], not f32[5] as stated: f32[4]",
          [](Bench& t) { t.b.emit(Opcode::neg, {t.f4}, {}, f32({5})); });
  refuses("constant: result type f32[2,0] has an extent below 1",
          [](Bench& t) { t.b.constant(1, DType::f32, {2, 0}); });
  refuses("constant: result type f32[1048576,1048576] has 2^40 elements or more",
          [](Bench& t) { t.b.constant(1, DType::f32, {1 << 20, 1 << 20}); });
  // A product of two extents below the limit, which is 0 modulo 2^64.
  refuses("constant: result type f32[549755813888,549755813888] has 2^40 elements or more",
          [](Bench& t) { t.b.constant(1, DType::f32, {std::int64_t{1} << 39, std::int64_t{1} << 39}); });
  refuses("iota: result type f32[9223372036854775807,9223372036854775807] has 2^40 elements or more",
          [](Bench& t) {
            constexpr std::int64_t kHuge = INT64_MAX;
            t.b.emit(Opcode::iota, {}, axis(0), f32({kHuge, kHuge}));
          });
}

TEST_CASE("Pointwise operands") {
  refuses("add: operand shapes differ (broadcast one): f32[2,3] x f32[3,2]",
          [](Bench& t) { t.b.emit(Opcode::add, {t.f23, t.f32_}); });
  refuses("add: operand dtypes differ (cast one): f32[2,3] x i32[2,3]",
          [](Bench& t) { t.b.emit(Opcode::add, {t.f23, t.i23}); });
  refuses("exp: operand 0 must be of a float dtype, not i64: i64[4]",
          [](Bench& t) { t.b.unary(Opcode::exp, t.i4); });
  refuses("neg: operand 0 must be of a float or integer dtype, not i1: i1[]",
          [](Bench& t) { t.b.unary(Opcode::neg, t.flag); });
  refuses("logical_not: operand 0 must be i1, not f32: f32[4]",
          [](Bench& t) { t.b.unary(Opcode::logical_not, t.f4); });
  refuses("isfinite: operand 0 must be of a float dtype, not i64: i64[4]",
          [](Bench& t) { t.b.unary(Opcode::isfinite, t.i4); });
  refuses("compare: direction must be lt, le, gt, ge, eq or ne, not 'less': f32[4] x f32[4]",
          [](Bench& t) { t.b.compare("less", t.f4, t.f4); });
  refuses("select: the condition (operand 0) must be i1, not f32: f32[2,3] x f32[2,3] x f32[2,3]",
          [](Bench& t) { t.b.emit(Opcode::select, {t.f23, t.f23, t.f23}); });
  refuses("select: operand shapes differ (broadcast one): i1[] x f32[2,3] x f32[2,3]",
          [](Bench& t) { t.b.emit(Opcode::select, {t.flag, t.f23, t.f23}); });
  refuses("select: operand dtypes differ (cast one): i1[2,3] x f32[2,3] x i32[2,3]",
          [](Bench& t) { t.b.emit(Opcode::select, {t.flag23, t.f23, t.i23}); });
  refuses("cast: a cast keeps the shape; i32[3,2] was requested: f32[2,3]",
          [](Bench& t) { t.b.emit(Opcode::cast, {t.f23}, {}, TensorType{DType::i32, {3, 2}}); });
}

TEST_CASE("Axes") {
  refuses("sum: axis 2 is out of range: rank 2 has axes -2 to 1: f32[2,3]",
          [](Bench& t) { t.b.sum(t.f23, {2}); });
  refuses("sum: axis 1 is named twice: f32[2,3]", [](Bench& t) { t.b.sum(t.f23, {1, -1}); });
  refuses("sum: axis 0 is out of range: a scalar has no axes: f32[]",
          [](Bench& t) { t.b.sum(t.scalar, {0}); });
  refuses("sum: attribute 'axes' is empty: f32[4]",
          [](Bench& t) { t.b.emit(Opcode::sum, {t.f4}, axes({})); });
  refuses("max: operand 0 must be of a float or integer dtype, not i1: i1[2,3]",
          [](Bench& t) { t.b.max(t.flag23, {0}); });
  refuses("argmax: axis -3 is out of range: rank 2 has axes -2 to 1: f32[2,3]",
          [](Bench& t) { t.b.emit(Opcode::argmax, {t.f23}, axis(-3)); });
  refuses("softmax: axis 1 is out of range: rank 1 has axes -1 to 0: f32[4]",
          [](Bench& t) { t.b.emit(Opcode::softmax, {t.f4}, axis(1)); });
  refuses("sort: axis 7 is out of range: rank 1 has axes -1 to 0: i64[4]",
          [](Bench& t) { t.b.emit(Opcode::sort, {t.i4}, axis(7)); });
}

TEST_CASE("matmul operands") {
  refuses("matmul: both operands must have rank 2 or more: f32[4] x f32[4,2]",
          [](Bench& t) { t.b.matmul(t.f4, t.f42); });
  refuses("matmul: operand dtypes differ (cast one): f32[2,3] x i32[2,3]",
          [](Bench& t) { t.b.matmul(t.f23, t.i23); });
  refuses("matmul: operand 0 must be of a float dtype, not i32: i32[2,3] x i32[2,3]",
          [](Bench& t) { t.b.matmul(t.i23, t.i23, false, true); });
  refuses("matmul: the leading axes differ, and the second operand's rank is not 2: f32[4,2] x f32[2,3,4]",
          [](Bench& t) { t.b.matmul(t.f42, t.f234, true, true); });
}

TEST_CASE("Shape ops") {
  refuses("reshape: f32[7] has 7 elements, the operand 6: f32[2,3]",
          [](Bench& t) { t.b.reshape(t.f23, {7}); });
  refuses("reshape: the result must keep the dtype; i32[6] was requested: f32[2,3]",
          [](Bench& t) { t.b.emit(Opcode::reshape, {t.f23}, {}, TensorType{DType::i32, {6}}); });
  refuses("transpose: attribute 'permutation' has 3 entries, the operand's rank is 2: f32[2,3]",
          [](Bench& t) { t.b.transpose(t.f23, {0, 1, 2}); });
  refuses("transpose: axis 0 is named twice: f32[2,3]", [](Bench& t) { t.b.transpose(t.f23, {0, 0}); });
  refuses("broadcast: axis 0 has extent 2 and cannot grow to 4: only extents of 1 do: f32[2,3]",
          [](Bench& t) { t.b.emit(Opcode::broadcast, {t.f23}, {}, f32({4, 3})); });
  refuses("broadcast: broadcast keeps the rank (reshape first); f32[2,2,3] was requested: f32[2,3]",
          [](Bench& t) { t.b.emit(Opcode::broadcast, {t.f23}, {}, f32({2, 2, 3})); });
  refuses("slice: axis 1: [1, 4) is empty or leaves [0, 3): f32[2,3]",
          [](Bench& t) { t.b.slice(t.f23, 1, 1, 4); });
  refuses("slice: axis 0: [1, 1) is empty or leaves [0, 2): f32[2,3]",
          [](Bench& t) { t.b.slice(t.f23, 0, 1, 1); });
  refuses("slice: attribute 'starts' has 1 entries, the operand's rank is 2: f32[2,3]",
          [](Bench& t) { t.b.emit(Opcode::slice, {t.f23}, {{"starts", Ints{0}}, {"limits", Ints{1, 1}}}); });
  refuses("slice: axis 0: stride 0 is below 1: f32[4]", [](Bench& t) {
    t.b.emit(Opcode::slice, {t.f4}, {{"starts", Ints{0}}, {"limits", Ints{4}}, {"strides", Ints{0}}});
  });
  refuses("pad: axis 0: padding of -1 and 0 is not in [0, 2^40]: f32[4]",
          [](Bench& t) { t.b.emit(Opcode::pad, {t.f4}, {{"low", Ints{-1}}, {"high", Ints{0}}}); });
  refuses("pad: axis 0: padding of 0 and 9223372036854775807 is not in [0, 2^40]: f32[4]",
          [](Bench& t) { t.b.emit(Opcode::pad, {t.f4}, {{"low", Ints{0}}, {"high", Ints{INT64_MAX}}}); });
  refuses("pad: i64 does not hold the value 0.5: i64[4]", [](Bench& t) {
    t.b.emit(Opcode::pad, {t.i4}, {{"low", Ints{1}}, {"high", Ints{0}}, {"value", 0.5}});
  });
  refuses("concat: operand 1 has another rank than operand 0: f32[2,3] x f32[4]",
          [](Bench& t) { t.b.emit(Opcode::concat, {t.f23, t.f4}, axis(0)); });
  refuses("concat: operand 1 differs from operand 0 in more than axis 0: f32[2,3] x f32[3,2]",
          [](Bench& t) { t.b.emit(Opcode::concat, {t.f23, t.f32_}, axis(0)); });
  refuses("concat: operand dtypes differ (cast one): f32[2,3] x i32[2,3]",
          [](Bench& t) { t.b.emit(Opcode::concat, {t.f23, t.i23}, axis(0)); });
}

TEST_CASE("Indexed ops and constants") {
  refuses("gather: indices must be i32[k] or i64[k], not f32[4]: f32[2,3] x f32[4]",
          [](Bench& t) { t.b.emit(Opcode::gather, {t.f23, t.f4}, axis(0)); });
  refuses("gather: indices must be i32[k] or i64[k], not i32[2,3]: f32[2,3] x i32[2,3]",
          [](Bench& t) { t.b.emit(Opcode::gather, {t.f23, t.i23}, axis(0)); });
  refuses(
      "gather: indices must be i32[k] or i64[k], or [2,3,k] for each, not i32[2,3]: f32[2,3,4] x i32[2,3]",
      [](Bench& t) { t.b.emit(Opcode::gather, {t.f234, t.i23}, axis(2)); });
  refuses("gather: indices must be i32[k] or i64[k], or [3,k] for each, not i32[2,3]: f32[3,2] x i32[2,3]",
          [](Bench& t) { t.b.emit(Opcode::gather, {t.f32_, t.i23}, axis(-1)); });
  refuses(
      "scatter_add: the updates (operand 2) must be f32[2,3,4], not f32[2,3]: f32[2,3,4] x i32[2,3] x "
      "f32[2,3]",
      [](Bench& t) { t.b.emit(Opcode::scatter_add, {t.f234, t.i23, t.f23}, axis(1)); });
  refuses("scatter_add: the updates (operand 2) must be f32[4,3], not f32[2,3]: f32[2,3] x i64[4] x f32[2,3]",
          [](Bench& t) { t.b.emit(Opcode::scatter_add, {t.f23, t.i4, t.f23}, axis(0)); });
  refuses("iota: iota has no i1 form; request an integer or float dtype",
          [](Bench& t) { t.b.emit(Opcode::iota, {}, axis(0), TensorType{DType::i1, {4}}); });
  refuses("constant: 'values' has 3 entries, f32[4] has 4 elements",
          [](Bench& t) { t.b.emit(Opcode::constant, {}, {{"values", Doubles{1, 2, 3}}}, f32({4})); });
  refuses("constant: give 'value' or 'values', not both", [](Bench& t) {
    t.b.emit(Opcode::constant, {}, {{"value", 1.0}, {"values", Doubles{1}}}, f32({1}));
  });
  refuses("constant: u8 does not hold the value 256", [](Bench& t) { t.b.constant(256, DType::u8); });
  refuses("constant: i1 does not hold the value 2", [](Bench& t) {
    t.b.emit(Opcode::constant, {}, {{"values", Doubles{2}}}, TensorType{DType::i1, {1}});
  });
}

TEST_CASE("Random draws") {
  refuses("random_normal: the step (operand 1) must be i64[], not i64[4]: i64[] x i64[4]", [](Bench& t) {
    t.b.emit(Opcode::random_normal, {t.seed, t.i4}, {{"stream", std::string("s")}}, f32({2}));
  });
  refuses("random_uniform: draws have a float dtype; i64[2] was requested: i64[] x i64[]", [](Bench& t) {
    t.b.emit(Opcode::random_uniform, {t.seed, t.seed}, {{"stream", std::string("s")}},
             TensorType{DType::i64, {2}});
  });
  refuses("random_uniform: attribute 'stream' is empty: i64[] x i64[]", [](Bench& t) {
    t.b.emit(Opcode::random_uniform, {t.seed, t.seed}, {{"stream", std::string()}}, f32({2}));
  });
  refuses("dropout: probability must be in [0, 1), not 1: f32[4] x i64[] x i64[] x i1[]", [](Bench& t) {
    t.b.emit(Opcode::dropout, {t.f4, t.seed, t.seed, t.flag},
             {{"probability", 1.0}, {"stream", std::string("s")}});
  });
  refuses("drop_path: the training flag (operand 3) must be i1[], not i64[]: f32[4] x i64[] x i64[] x i64[]",
          [](Bench& t) {
            t.b.emit(Opcode::drop_path, {t.f4, t.seed, t.seed, t.seed},
                     {{"probability", 0.5}, {"stream", std::string("s")}});
          });
}

TEST_CASE("Convolutions") {
  const auto convolve = [](Bench& t, Ints strides, Ints padding, std::int64_t groups) {
    const Value w = t.b.argument("w", {DType::f32, {4, 3, 3, 3}});
    t.b.emit(Opcode::conv2d, {t.f2344, w},
             {{"strides", std::move(strides)}, {"padding", std::move(padding)}, {"groups", groups}});
  };
  const std::string types = ": f32[2,3,4,4] x f32[4,3,3,3]";
  refuses("conv2d: strides must be [height, width], both from 1 to 2147483647" + types,
          [&](Bench& t) { convolve(t, {0, 1}, {0, 0}, 1); });
  refuses("conv2d: padding must be [height, width], both from 0 to 2147483647" + types,
          [&](Bench& t) { convolve(t, {1, 1}, {0, std::int64_t{1} << 62}, 1); });
  refuses("conv2d: 3 groups of 3 channels and 4 outputs do not fit a weight [4, 3, …]" + types,
          [&](Bench& t) { convolve(t, {1, 1}, {0, 0}, 3); });
  refuses("conv2d: groups must be 1 or more, not 0" + types,
          [&](Bench& t) { convolve(t, {1, 1}, {0, 0}, 0); });
}

TEST_CASE("Composites") {
  refuses("layer_norm: the weight (operand 1) must be f32[3], not f32[4]: f32[2,3] x f32[4]",
          [](Bench& t) { t.b.emit(Opcode::layer_norm, {t.f23, t.f4}); });
  refuses("layer_norm: a scalar has no last axis to normalise: f32[]",
          [](Bench& t) { t.b.emit(Opcode::layer_norm, {t.scalar}); });
  refuses("layer_norm: epsilon must be 0 or more, not -1: f32[4]",
          [](Bench& t) { t.b.emit(Opcode::layer_norm, {t.f4}, {{"epsilon", -1.0}}); });
  refuses("gelu: approximate must be none or tanh, not 'erf': f32[4]",
          [](Bench& t) { t.b.emit(Opcode::gelu, {t.f4}, {{"approximate", std::string("erf")}}); });
  refuses("attention: q must be [batch, heads, tokens, width]: f32[2,3] x f32[2,3] x f32[2,3]",
          [](Bench& t) { t.b.emit(Opcode::attention, {t.f23, t.f23, t.f23}, {{"scale", 1.0}}); });
  refuses("attention: k must have q's dtype, batch and width: f32[2,3,4,4] x f32[2,3] x f32[2,3]",
          [](Bench& t) { t.b.emit(Opcode::attention, {t.f2344, t.f23, t.f23}, {{"scale", 1.0}}); });
  refuses(
      "attention: v must have k's dtype, batch, heads and tokens: f32[2,3,4,4] x f32[2,3,4,4] x f32[2,3,4]",
      [](Bench& t) { t.b.emit(Opcode::attention, {t.f2344, t.f2344, t.f234}, {{"scale", 1.0}}); });
  refuses("cross_entropy: the logits (operand 0) must have rank 2, [batch, classes]: f32[4] x i64[4]",
          [](Bench& t) { t.b.emit(Opcode::cross_entropy, {t.f4, t.i4}); });
  refuses("cross_entropy: the labels (operand 1) must be i32[2] or i64[2]: f32[2,3] x i64[4]",
          [](Bench& t) { t.b.emit(Opcode::cross_entropy, {t.f23, t.i4}); });
  refuses("cross_entropy: label_smoothing must be in [0, 1), not 1: f32[4,2] x i64[4]",
          [](Bench& t) { t.b.emit(Opcode::cross_entropy, {t.f42, t.i4}, {{"label_smoothing", 1.0}}); });
}

TEST_CASE("Fourier transforms and circulant products") {
  refuses("rfft: x (operand 0) must have rank 1 or more: f32[]",
          [](Bench& t) { t.b.unary(Opcode::rfft, t.scalar); });
  refuses(
      "irfft: the spectrum (operand 0) must be [..., 2, bins]: real parts, then imaginary parts: f32[3,2]",
      [](Bench& t) { t.b.emit(Opcode::irfft, {t.f32_}, {{"length", std::int64_t{2}}}); });
  refuses(
      "irfft_pairs: the spectrum (operand 0) must be [..., bins, 2]: each bin's real and imaginary part: "
      "f32[2,3]",
      [](Bench& t) { t.b.emit(Opcode::irfft_pairs, {t.f23}, {{"length", std::int64_t{2}}}); });
  refuses("irfft: length 6 has 4 bins, not 3: f32[2,3]",
          [](Bench& t) { t.b.emit(Opcode::irfft, {t.f23}, {{"length", std::int64_t{6}}}); });
  refuses("circulant_matmul: c (operand 1) must be [output slices, input slices, lags]: f32[2,3] x f32[2,3]",
          [](Bench& t) { t.b.emit(Opcode::circulant_matmul, {t.f23, t.f23}); });
  refuses("circulant_matmul: x's last axis is 4, not 3 slices of 4: f32[4] x f32[2,3,4]",
          [](Bench& t) { t.b.emit(Opcode::circulant_matmul, {t.f4, t.f234}); });
  refuses(
      "circulant_matmul: lowering must be one of auto, dense, split2, split4, split8, fft, not 'fast': "
      "f32[5,12] x "
      "f32[2,3,4]",
      [](Bench& t) {
        const Value x = t.b.argument("x", f32({5, 12}));
        t.b.emit(Opcode::circulant_matmul, {x, t.f234}, {{"lowering", std::string("fast")}});
      });
  refuses(
      "circulant_matmul_grad: the leading axes of x (operand 0) and of the result's gradient (operand 1) "
      "differ: "
      "f32[2,3] x f32[4,2]",
      [](Bench& t) { t.b.emit(Opcode::circulant_matmul_grad, {t.f23, t.f42}, {{"lags", std::int64_t{1}}}); });
  refuses(
      "circulant_matmul_grad: last axes of 4 and 4 are not multiples of 3 lags: f32[4] x f32[4]",
      [](Bench& t) { t.b.emit(Opcode::circulant_matmul_grad, {t.f4, t.f4}, {{"lags", std::int64_t{3}}}); });
  refuses("circulant_matmul_grad: lowering split8 needs a multiple of 8 lags, not 4: f32[4] x f32[4]",
          [](Bench& t) {
            t.b.emit(Opcode::circulant_matmul_grad, {t.f4, t.f4},
                     {{"lags", std::int64_t{4}}, {"lowering", std::string("split8")}});
          });
}

TEST_CASE("Windows of maps") {
  const auto windows = [](Ints kernel, Ints strides, Ints padding) {
    return Attributes{
        {"kernel", std::move(kernel)}, {"strides", std::move(strides)}, {"padding", std::move(padding)}};
  };
  refuses("max_pool: x (operand 0) must be [batch, channels, height, width]: f32[2,3,4]",
          [&](Bench& t) { t.b.emit(Opcode::max_pool, {t.f234}, windows({2, 2}, {2, 2}, {0, 0})); });
  refuses("unfold: operand 0 must be of a float dtype, not i32: i32[2,3]",
          [&](Bench& t) { t.b.emit(Opcode::unfold, {t.i23}, windows({2, 2}, {2, 2}, {0, 0})); });
  refuses("avg_pool: attribute 'kernel' has 1 entries; it takes two, for rows and columns: f32[2,3,4,4]",
          [&](Bench& t) { t.b.emit(Opcode::avg_pool, {t.f2344}, windows({2}, {2, 2}, {0, 0})); });
  refuses("unfold: attribute 'strides' has 0; it takes 1 to 256: f32[2,3,4,4]",
          [&](Bench& t) { t.b.emit(Opcode::unfold, {t.f2344}, windows({2, 2}, {2, 0}, {0, 0})); });
  refuses("unfold: attribute 'padding' has -1; it takes 0 to 256: f32[2,3,4,4]",
          [&](Bench& t) { t.b.emit(Opcode::unfold, {t.f2344}, windows({2, 2}, {2, 2}, {-1, 0})); });
  refuses("max_pool: padding of 2 and 0 is more than half of a window of 3 x 3: f32[2,3,4,4]",
          [&](Bench& t) { t.b.emit(Opcode::max_pool, {t.f2344}, windows({3, 3}, {1, 1}, {2, 0})); });
  refuses("unfold: windows of 7 x 3 are larger than maps of 4 x 4, padded by 1 and 0: f32[2,3,4,4]",
          [&](Bench& t) { t.b.emit(Opcode::unfold, {t.f2344}, windows({7, 3}, {1, 1}, {1, 0})); });
  refuses("resize: attribute 'size' has 3 entries; it takes two, height and width: f32[2,3,4,4]",
          [](Bench& t) { t.b.emit(Opcode::resize, {t.f2344}, {{"size", Ints{2, 3, 4}}}); });
  refuses("resize: attribute 'size' has 0; of 4 elements it takes 1 to 1048576: f32[2,3,4,4]",
          [](Bench& t) { t.b.emit(Opcode::resize, {t.f2344}, {{"size", Ints{2, 0}}}); });
}

TEST_CASE("Residual joins") {
  const std::string five = ": f32[2,3,4] x f32[2,3,4] x f32[2,3,4] x f32[2,3,4] x f32[2,3,4]";
  const auto join = [](Bench& t, const Attributes& facts) {
    t.b.emit(Opcode::residual, {t.f234, t.f234, t.f234, t.f234, t.f234}, facts);
  };
  refuses("residual: site must be attn, mlp or conv, not 'ffn'" + five,
          [&](Bench& t) { join(t, join_facts("site", std::string("ffn"))); });
  refuses("residual: join_index 2 is outside [0, join_count = 2)" + five,
          [&](Bench& t) { join(t, join_facts("join_index", std::int64_t{2})); });
  refuses("residual: channel_axis 3 is out of range for rank 3" + five,
          [&](Bench& t) { join(t, join_facts("channel_axis", std::int64_t{3})); });
  refuses("residual: block is -1, below 0" + five,
          [&](Bench& t) { join(t, join_facts("block", std::int64_t{-1})); });
  refuses("residual: attribute 'scope' is empty" + five,
          [&](Bench& t) { join(t, join_facts("scope", std::string())); });
  refuses("residual: operand 1 is f32[2,3], but the stream is f32[2,3,4]: f32[2,3,4] x f32[2,3] x f32[2,3]",
          [](Bench& t) { t.b.emit(Opcode::residual, {t.f234, t.f23, t.f23}, join_facts()); });
  refuses(
      "residual: takes stream, branch, input, shortcut slot, branch slot and paths: at least 5 operands, got "
      "4: "
      "f32[2,3,4] x f32[2,3,4] x f32[2,3,4] x f32[2,3,4]",
      [](Bench& t) { t.b.emit(Opcode::residual, {t.f234, t.f234, t.f234, t.f234}, join_facts()); });
}

TEST_CASE("State") {
  refuses("param: the module has no parameter 'blocks.0.fc.wieght' (did you mean 'blocks.0.fc.weight'?)",
          [](Bench& t) {
            t.b.emit(Opcode::param, {}, {{"name", std::string("blocks.0.fc.wieght")}}, f32({2, 3}));
          });
  refuses("param: parameter 'blocks.0.fc.weight' is f32[2,3], not f32[4]", [](Bench& t) {
    t.b.emit(Opcode::param, {}, {{"name", std::string("blocks.0.fc.weight")}}, f32({4}));
  });
  refuses("update: the new value of 'blocks.0.fc.weight' must be f32[2,3], not f32[4]: f32[4]",
          [](Bench& t) { t.b.emit(Opcode::update, {t.f4}, {{"name", std::string("blocks.0.fc.weight")}}); });
  refuses("update: the predicate (operand 1) must be i1[], not i1[2,3]: f32[2,3] x i1[2,3]", [](Bench& t) {
    t.b.emit(Opcode::update, {t.f23, t.flag23}, {{"name", std::string("blocks.0.fc.weight")}});
  });
  refuses("is_training: the result is i1[], not f32[]",
          [](Bench& t) { t.b.emit(Opcode::is_training, {}, {}, f32({})); });
}
