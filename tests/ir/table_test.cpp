// The op table: what its specs parse to, and that every row has a random case that holds what it promises.
#include <cmath>
#include <set>
#include <string_view>

#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "ir/ops/op_info.h"
#include "tests/support/catch.h"
#include "tests/support/op_cases.h"

using namespace rewire;
using namespace rewire::ir;
using rewire::testing::has_op_case;
using rewire::testing::OpCase;
using rewire::testing::random_op_case;

namespace {

constexpr std::uint64_t kSeeds = 25;

bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  const auto bits = [](const Tensor& tensor) {
    return std::string_view(reinterpret_cast<const char*>(tensor.data.data()),
                            tensor.data.size() * sizeof(double));
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const Tensor& x, const Tensor& y) { return x.type == y.type && bits(x) == bits(y); });
}

}  // namespace

TEST_CASE("Op names read back to their codes") {
  for (const OpInfo& info : op_table()) {
    CHECK(info.name == opcode_name(info.code));
    CHECK(opcode_from_name(info.name) == info.code);
    CHECK(&op_info(info.code) == &info);
  }
  CHECK(op_table().size() == kOpcodeCount);
  CHECK_FALSE(opcode_from_name("matmull").has_value());
  CHECK_FALSE(opcode_from_name("").has_value());
}

TEST_CASE("Operand specs are a count, a range or a minimum") {
  const OpInfo& matmul = op_info(Opcode::matmul);
  CHECK(matmul.min_operands == 2);
  CHECK(matmul.max_operands == 2);
  const OpInfo& layer_norm = op_info(Opcode::layer_norm);
  CHECK(layer_norm.min_operands == 1);
  CHECK(layer_norm.max_operands == 3);
  const OpInfo& concat = op_info(Opcode::concat);
  CHECK(concat.min_operands == 1);
  CHECK(concat.max_operands == -1);
  CHECK(op_info(Opcode::iota).max_operands == 0);
  CHECK(op_info(Opcode::sort).results == 2);
  CHECK(op_info(Opcode::update).results == 0);
}

TEST_CASE("Attribute specs have a kind and a default where one is written") {
  const AttributeSpec* transpose_a = op_info(Opcode::matmul).find_attribute("transpose_a");
  REQUIRE(transpose_a != nullptr);
  CHECK(transpose_a->kind == AttributeKind::boolean);
  CHECK(transpose_a->default_value == Attribute(false));
  const AttributeSpec* axes = op_info(Opcode::sum).find_attribute("axes");
  REQUIRE(axes != nullptr);
  CHECK(axes->kind == AttributeKind::integers);
  CHECK_FALSE(axes->default_value.has_value());
  CHECK(op_info(Opcode::layer_norm).find_attribute("epsilon")->default_value == Attribute(1e-6));
  CHECK(op_info(Opcode::softmax).find_attribute("axis")->default_value == Attribute(std::int64_t{-1}));
  CHECK(op_info(Opcode::gelu).find_attribute("approximate")->default_value == Attribute(std::string("none")));
  CHECK(op_info(Opcode::slice).find_attribute("strides")->default_value == Attribute(Ints{}));
  CHECK(op_info(Opcode::constant).find_attribute("values")->default_value == Attribute(Doubles{}));
  CHECK(op_info(Opcode::residual).find_attribute("scope")->default_value ==
        Attribute(std::string("encoder")));
  CHECK(op_info(Opcode::residual).find_attribute("last_weight")->default_value == Attribute(std::string()));
  CHECK(op_info(Opcode::neg).find_attribute("axis") == nullptr);
}

TEST_CASE("Every row has a shape rule, a meaning and a sound tolerance") {
  for (const OpInfo& info : op_table()) {
    CAPTURE(info.name);
    CHECK(info.infer != nullptr);
    CHECK(info.evaluate != nullptr);
    CHECK((info.tolerance >= 0 && info.tolerance < 1e-3));
    if (info.op_class != OpClass::composite && info.op_class != OpClass::residual) {
      CHECK(info.decompose == nullptr);
    }
  }
  CHECK(op_info(Opcode::floor).vjp == nullptr);
  CHECK(op_info(Opcode::add).vjp != nullptr);
  CHECK(op_info(Opcode::attention).decompose == nullptr);
  CHECK(op_info(Opcode::layer_norm).decompose != nullptr);
}

TEST_CASE("Classes have names") {
  CHECK(op_class_name(OpClass::pointwise) == "pointwise");
  CHECK(op_class_name(op_info(Opcode::gather).op_class) == "shape");
  CHECK(op_class_name(op_info(Opcode::update).op_class) == "state");
  CHECK(op_class_name(op_info(Opcode::all_reduce).op_class) == "comm");
}

TEST_CASE("Every op of the table has a random case") {
  for (const OpInfo& info : op_table()) {
    CAPTURE(info.name);
    CHECK(has_op_case(info.code));
  }
}

TEST_CASE("Random cases evaluate, twice to the same bits, and cover shapes") {
  for (const OpInfo& info : op_table()) {
    bool has_extent_one = false;
    bool has_odd_extent = false;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      CAPTURE(info.name, seed);
      OpCase first = random_op_case(info.code, seed);
      OpCase second = random_op_case(info.code, seed);
      const Function& main = first.module.function("main");
      REQUIRE(first.differentiable.size() == first.inputs.size());
      REQUIRE(same(first.inputs, second.inputs));
      REQUIRE(main.body.size() == 1);
      REQUIRE(main.body[0].code == info.code);
      REQUIRE(main.results.size() == static_cast<std::size_t>(info.results));
      const std::vector<Tensor> results = evaluate(first.module, main, first.inputs, first.state);
      REQUIRE(same(results,
                   evaluate(second.module, second.module.function("main"), second.inputs, second.state)));

      std::vector<TensorType> types;
      for (const Tensor& result : results) types.push_back(result.type);
      for (std::size_t i = 0; i < first.inputs.size(); ++i) {
        const Tensor& input = first.inputs[i];
        CAPTURE(i);
        types.push_back(input.type);
        CHECK((!first.differentiable[i] || is_float(input.type.dtype)));
        for (double value : input.data) {
          if (!std::isnan(value)) REQUIRE(round_to(input.type.dtype, value) == value);
        }
      }
      for (const TensorType& type : types) {
        CHECK(type.elements() <= 8192);
        for (std::int64_t extent : type.shape) {
          has_extent_one |= extent == 1;
          has_odd_extent |= extent > 1 && extent % 16 != 0;
        }
      }
    }
    CAPTURE(info.name);
    if (info.code == Opcode::is_training) continue;  // a scalar by definition
    CHECK(has_extent_one);
    CHECK(has_odd_extent);
  }
}

TEST_CASE("Shape-generic ops get cases of every rank from 1 to 4") {
  for (Opcode code : {Opcode::exp, Opcode::add, Opcode::sum, Opcode::transpose, Opcode::slice, Opcode::concat,
                      Opcode::gather, Opcode::layer_norm, Opcode::softmax, Opcode::dropout}) {
    std::set<int> ranks;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      ranks.insert(random_op_case(code, seed).inputs[0].type.rank());
    }
    CAPTURE(opcode_name(code));
    CHECK(ranks == std::set<int>{1, 2, 3, 4});
  }
}
