// The text form's promise: print(parse(print(m))) == print(m), byte for byte, and nothing is lost on the way.
#include <cmath>
#include <limits>
#include <string>

#include "ir/builder.h"
#include "ir/init_text.h"
#include "ir/opcodes.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/support/catch.h"

namespace rewire::ir {
namespace {

const std::string kEverySpelling = R"rir(module @"odd name" {
  attribute "a b" = -3
  attribute dim = 192
  attribute empty = []
  attribute flag = true
  attribute list = [1, 2]
  attribute rate = 0.1
  attribute rates = [1.0, 2.5]
  attribute text = "tab\t quote\" back\\ line\n bell\x07 größe"
  param @blocks.0.norm.weight : f32[3] {block = 0, decay = false, init = "ones", role = "norm", site = "attn"}
  param @w : bf16[3,4] {init = "trunc_normal(0.02, 2.0)"}
  param @x : f16[3,4] {beta1 = 0.5, beta2 = 0.99, init = "xavier_uniform", lr_scale = 10.0, weight_decay = 0.0}
  param @places : f32[1,9,8] {init = "sinusoid"}
  param @grid : f32[1,10,8] {init = "sinusoid_2d(1.0)"}
  param @turn : f32[3,2] {init = "orthonormal"}
  param @y : f64[1] {init = "uniform(-0.5, 0.5)"}
  param @z : f32[2,2] {init = "values(0.1, -2.0, 3e-05, 4.0)"}
  state @train.step : i64[] {init = "zeros"}

  func @first(%x: f32[2,3], %"0": i1[], %"a b": u8[1]) -> (out: f32[2,3], "other result": f32[2,3]) {
    %0 = param {name = "blocks.0.norm.weight"} : f32[3]
    %1 = layer_norm %x, %0, %0 : f32[2,3] loc("blocks.0.norm")
    %2 = layer_norm %x {epsilon = 1e-05} : f32[2,3] loc("quote\" inside")
    %3 = constant : f32[2,3]
    %4 = constant {value = -0.0} : f32[]
    %5 = constant {values = [1.0, -inf, nan]} : f32[3]
    %6 = reshape %x : f32[3,2]
    %7 = add %1, %2 : f32[2,3]
    update %0 {name = "blocks.0.norm.weight"}
    return out = %7, "other result" = %x
  }

  func @second() -> () training {
    return
  }
}
)rir";

}  // namespace

TEST_CASE("A text in printed form prints as itself", "[ir][text]") {
  CHECK(print(parse(kEverySpelling)) == kEverySpelling);
}

TEST_CASE("White space, comments, value names and omitted types do not matter", "[ir][text]") {
  const Module module = parse(
      "module@m{//comment\nfunc@f(%\"x\":f32[2,3])->(y:f32[2,3]){%a=neg %x\n%b =\nneg\t%a "
      "loc( \"here\" )return y=%b}}//end");
  CHECK(print(module) == R"rir(module @m {
  func @f(%x: f32[2,3]) -> (y: f32[2,3]) {
    %0 = neg %x : f32[2,3]
    %1 = neg %0 : f32[2,3] loc("here")
    return y = %1
  }
}
)rir");
}

TEST_CASE("Parsing keeps what the text says", "[ir][text]") {
  const Module module = parse(kEverySpelling);
  CHECK(module.name == "odd name");
  CHECK(module.attributes.get_string("text") == "tab\t quote\" back\\ line\n bell\x07 größe");
  CHECK(module.attributes.get<Doubles>("rates") == Doubles{1.0, 2.5});
  CHECK(module.attributes.get_ints("list") == Ints{1, 2});
  REQUIRE(module.parameters.size() == 9);
  const Parameter& weight = module.parameters[0];
  CHECK(weight.init == Init{InitKind::ones, 0, 0});
  CHECK(weight.trainable);
  CHECK_FALSE(weight.decay);
  CHECK(weight.role == "norm");
  CHECK(weight.site == "attn");
  CHECK(weight.block == 0);
  CHECK(module.parameters[1].init == Init{InitKind::trunc_normal, 0.02, 2.0});
  CHECK(module.parameters[1].decay);
  CHECK(module.parameters[7].init.values == std::vector<double>{0.1, -2, 3e-5, 4});
  CHECK_FALSE(module.parameters[8].trainable);
  CHECK(module.parameters[4].init == Init{InitKind::sinusoid_2d, 1});

  const Function& function = module.function("first");
  CHECK(function.arguments[1].name == "0");
  CHECK(function.body[1].location == "blocks.0.norm");
  CHECK(function.body[1].attributes.get_double("epsilon") == 1e-6);
  CHECK(function.body[1].line == 22);
  CHECK(std::signbit(function.body[4].attributes.get_double("value")));
  CHECK(std::isnan(function.body[5].attributes.get<Doubles>("values")[2]));
  CHECK(function.results[1].value == function.arguments[0].value);
  CHECK_FALSE(function.trains);
  CHECK(module.function("second").trains);
}

TEST_CASE("What a state is for is kept, and read of texts that had it as a role", "[ir][text]") {
  Module module;
  module.name = "m";
  for (int kind = 0; kind <= static_cast<int>(StateKind::partial); ++kind)
    module.add_state("s" + std::to_string(kind), {DType::i64, {}}, static_cast<StateKind>(kind));
  const Module again = parse(print(module), "m.rir");
  CHECK(print(again) == print(module));
  for (std::size_t i = 0; i < module.parameters.size(); ++i)
    CHECK(again.parameters[i].kind == module.parameters[i].kind);
  const Module old = parse(
      "module @m {\n  state @rng.seed : i64[] {role = \"state\"}\n  state @train.step : i64[] {role = "
      "\"state\"}\n}\n",
      "old.rir");
  for (const Parameter& parameter : old.parameters) {
    CHECK_FALSE(parameter.is_weight());
    CHECK(parameter.role.empty());
  }
}

TEST_CASE("What trains is read of texts that listed it in a module attribute", "[ir][text]") {
  const auto old = [](const std::string& names) {
    return parse("module @m {\n  attribute training = \"" + names +
                     "\"\n  func @step() -> () { return }\n  func @eval() -> () { return }\n"
                     "  func @grad() -> () { return }\n}\n",
                 "old.rir");
  };
  const Module module = old("grad+step");
  CHECK(module.function("step").trains);
  CHECK_FALSE(module.function("eval").trains);
  CHECK(module.function("grad").trains);
  CHECK_FALSE(module.attributes.has("training"));
  CHECK_THROWS_WITH(old("lern"), REWIRE_CATCH_CONTAINS("there is no function 'lern' to train"));
}

TEST_CASE("Every double comes back bit for bit", "[ir][text]") {
  const double values[] = {0.0,
                           -0.0,
                           1.0,
                           -1.0,
                           0.1,
                           1.0 / 3,
                           1e-06,
                           1e15,
                           1e16,
                           1e17,
                           1e22,
                           123456789012345680.0,
                           5e-324,
                           std::numeric_limits<double>::max(),
                           std::numeric_limits<double>::min(),
                           std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity()};
  for (double value : values) {
    CAPTURE(value);
    const std::string spelled = spell_double(value);
    CHECK(spelled.find_first_of(".en") != std::string::npos);
    const Module module = parse("module @m { attribute a = " + spelled + " }");
    const double back = module.attributes.get_double("a");
    CHECK(back == value);
    CHECK(std::signbit(back) == std::signbit(value));
  }
}

TEST_CASE("A module built in memory prints as the text form describes", "[ir][text]") {
  Module module;
  module.name = "m";
  Parameter weight;
  weight.name = "w";
  weight.type = {DType::f32, {4, 3}};
  weight.init = {InitKind::normal, 0.5, 0};
  module.add_parameter(weight);
  Function& function = module.functions.emplace_back();
  function.name = "f";
  Builder b(module, function);
  const Value x = b.argument("x", {DType::f32, {2, 3}});
  Builder::Scope scope(b, "head");
  b.result("y", b.linear(x, b.param("w")));
  verify(module);
  CHECK(print(module) == R"rir(module @m {
  param @w : f32[4,3] {init = "normal(0.5)"}

  func @f(%x: f32[2,3]) -> (y: f32[2,4]) {
    %0 = param {name = "w"} : f32[4,3] loc("head")
    %1 = matmul %x, %0 {transpose_b = true} : f32[2,4] loc("head")
    return y = %1
  }
}
)rir");
  CHECK(print(module, function) ==
        print(module).substr(print(module).find("  func"),
                             print(module).rfind('}') - print(module).find("  func")));
}

TEST_CASE("The printer shows broken IR instead of failing on it", "[ir][text]") {
  Module module;
  module.name = "m";
  Function& function = module.functions.emplace_back();
  Op op;
  op.code = Opcode::neg;
  op.operands = {Value{7}};
  op.results = {Value{}};
  function.body.push_back(op);
  function.results.push_back({"y", Value{3}});
  CHECK(print(module, function) ==
        "  func @\"\"() -> (y: ?) {\n    %?-1 = neg %?7 : ?\n    return y = %?3\n  }\n");
}

}  // namespace rewire::ir
