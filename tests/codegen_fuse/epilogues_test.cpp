// Products whose call computes GELU by tanh or its gradient: where it must, where it must not, and that
// without it nothing changes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "codegen/cost.h"
#include "codegen/tables.h"
#include "ir/autodiff/autodiff.h"
#include "ir/builder.h"
#include "ir/opcodes.h"
#include "ir/passes/mixed_precision.h"
#include "ir/passes/pass.h"
#include "ir/verify.h"
#include "tests/codegen_fuse/fuse.h"
#include "tests/support/catch.h"

using namespace rewire;
using codegen::GemmEpilogue;
using codegen::GemmLaunch;
using codegen::ProductEpilogue;
using codegen::Program;
using ir::DType;
using ir::Opcode;
using ir::Value;

namespace {

struct Lowered {
  Program program;
  std::vector<std::string> asked;  // keys of what the library was asked for
};

/// `refused`: keys that it does not compute.
Lowered lower(const ir::Module& module, const std::set<std::string>& refused = {}) {
  Lowered lowered;
  codegen::FuseOptions options;
  options.tables = false;
  options.epilogue = [&](const ProductEpilogue& epilogue) {
    lowered.asked.push_back(codegen::epilogue_key(epilogue));
    return !refused.contains(lowered.asked.back());
  };
  lowered.program = codegen::lower(module, module.function("main"), options);
  return lowered;
}

std::vector<const GemmLaunch*> gemm_launches(const Program& program) {
  std::vector<const GemmLaunch*> found;
  for (const auto& launch : program.launches) {
    if (const auto* gemm = std::get_if<GemmLaunch>(&launch)) found.push_back(gemm);
  }
  return found;
}

std::string buffer_name(const Program& program, const codegen::View& view) {
  return view.buffer < 0 ? "none" : program.buffers[static_cast<std::size_t>(view.buffer)].name;
}

DType buffer_type(const Program& program, const codegen::View& view) {
  return program.buffers[static_cast<std::size_t>(view.buffer)].type.dtype;
}

/// What the activation is made of the product with its bias, [3, 7, hidden], in f32.
using Activation = Value (*)(ir::Builder&, Value);

Value gelu_by_tanh(ir::Builder& b, Value x) {
  return b.emit(Opcode::gelu, {x}, {{"approximate", std::string("tanh")}});
}

struct Mlp {
  std::int64_t hidden = 24;
  bool narrow = false, train = false;
  Activation activation = gelu_by_tanh;
  Activation behind = nullptr;  // between the activation and the second product
  bool show_pre = false, show_activated = false;
  bool has_bias = true;
};

/// y = activation(x w1^T + b1) w2^T of x [3, 7, 16], in training with the gradients of the mean square; all
/// passes have run.
ir::Module build(const Mlp& mlp) {
  ir::Module module;
  module.name = "mlp";
  for (const auto& [name, shape] : std::vector<std::pair<std::string, ir::Shape>>{
           {"w1", {mlp.hidden, 16}}, {"b1", {mlp.hidden}}, {"w2", {16, mlp.hidden}}}) {
    ir::Parameter parameter;
    parameter.name = name;
    parameter.type = {DType::f32, shape};
    module.add_parameter(parameter);
  }
  ir::Function& function = module.functions.emplace_back();
  function.name = "main";
  function.trains = mlp.train;
  ir::Builder b(module, function);
  const Value x = b.argument("x", {DType::f32, {3, 7, 16}});
  const Value w1 = b.param("w1"), b1 = b.param("b1"), w2 = b.param("w2");
  Value pre, activated, y;
  {
    ir::Builder::Scope scope(b, "fc1");
    pre = mlp.has_bias ? b.linear(x, w1, b1) : b.linear(x, w1);
  }
  {
    ir::Builder::Scope scope(b, "act");
    activated = mlp.activation(b, pre);
  }
  {
    ir::Builder::Scope scope(b, "fc2");
    y = b.linear(mlp.behind == nullptr ? activated : mlp.behind(b, activated), w2);
  }
  b.result("y", y);
  if (mlp.show_pre) b.result("pre", pre);
  if (mlp.show_activated) b.result("activated", b.unary(Opcode::neg, activated));
  if (mlp.narrow) ir::mixed_precision(module, function, {});
  if (mlp.train) {
    ir::Builder more(module, function);
    const Value result = function.results[0].value;
    const Value loss = more.reshape(more.mean(more.mul(result, result), {0, 1, 2}), {});
    std::vector<Value> weights;
    for (const ir::Op& op : function.body) {
      if (op.code == Opcode::param) weights.push_back(op.results[0]);
    }
    const std::vector<Value> gradients = ir::differentiate(more, loss, weights);
    for (std::size_t i = 0; i < gradients.size(); ++i)
      more.result(fmt::format("gradient{}", i), gradients[i]);
  }
  ir::verify(module);
  ir::PassContext context;
  ir::run_pipeline(module, context);
  return module;
}

}  // namespace

TEST_CASE("GELU by tanh of a product and its bias is computed by the call, which writes nothing else") {
  for (const bool narrow : {false, true}) {
    for (const std::int64_t hidden : {24, 17}) {
      CAPTURE(narrow, hidden);
      Mlp mlp;
      mlp.narrow = narrow, mlp.hidden = hidden;
      const auto [program, asked] = lower(build(mlp));
      CHECK(asked == std::vector{fmt::format("epilogue gelu 21x{}x16 {}", hidden, narrow ? "bf16" : "f32")});
      const auto found = gemm_launches(program);
      REQUIRE(found.size() == 2);
      CHECK(found[0]->epilogue == GemmEpilogue::gelu);
      CHECK(found[0]->pre.buffer == -1);
      CHECK(buffer_name(program, found[0]->bias) == "b1");
      CHECK(found[0]->c.buffer == found[1]->a.buffer);
      CHECK(buffer_type(program, found[0]->c) == (narrow ? DType::bf16 : DType::f32));
      CHECK(found[1]->epilogue == GemmEpilogue::none);
      // The casts of x, w1, w2 and of the result.
      CHECK(test::kernels(program) == (narrow ? 4 : 0));
    }
  }
}

TEST_CASE("what GELU is computed of is kept where somebody else reads it") {
  Mlp mlp;
  mlp.show_pre = true;
  const auto [program, asked] = lower(build(mlp));
  CHECK(asked == std::vector<std::string>{"epilogue gelu, pre 21x24x16 f32"});
  const auto found = gemm_launches(program);
  REQUIRE(found.size() == 2);
  CHECK(found[0]->epilogue == GemmEpilogue::gelu);
  CHECK(buffer_name(program, found[0]->pre) == "pre");
  CHECK(found[0]->pre.strides == found[0]->c.strides);
  CHECK(test::kernels(program) == 0);
  CHECK(found[0]->writes() == std::vector{found[0]->c.buffer, found[0]->pre.buffer});
}

TEST_CASE("the gradient of GELU by tanh is computed by the product behind it, with that of the bias") {
  for (const bool narrow : {false, true}) {
    CAPTURE(narrow);
    Mlp mlp;
    mlp.train = true, mlp.narrow = narrow;
    const auto [program, asked] = lower(build(mlp));
    const std::string type = narrow ? "bf16" : "f32";
    CHECK(asked ==
          std::vector{"epilogue gelu, pre 21x24x16 " + type, "epilogue gelu_gradient 21x24x16 " + type});
    const auto found = gemm_launches(program);
    const auto forward = std::ranges::find(found, GemmEpilogue::gelu, &GemmLaunch::epilogue);
    const auto backward = std::ranges::find(found, GemmEpilogue::gelu_gradient, &GemmLaunch::epilogue);
    REQUIRE(forward != found.end());
    REQUIRE(backward != found.end());
    CHECK((*forward)->pre.buffer == (*backward)->pre.buffer);
    CHECK((*forward)->pre.buffer >= 0);
    // The library writes the sum in the result's type; where another is wanted, a copy follows.
    CHECK(buffer_type(program, (*backward)->bias) == (narrow ? DType::bf16 : DType::f32));
    CHECK((buffer_name(program, (*backward)->bias) == "gradient1") == !narrow);
    CHECK((*backward)->reads() ==
          std::vector{(*backward)->a.buffer, (*backward)->b.buffer, (*backward)->pre.buffer});
    CHECK((*backward)->writes() == std::vector{(*backward)->c.buffer, (*backward)->bias.buffer});
  }
}

TEST_CASE("an epilogue that the library does not compute leaves the program as it was without") {
  for (const bool narrow : {false, true}) {
    Mlp mlp;
    mlp.train = true, mlp.narrow = narrow;
    const ir::Module module = build(mlp);
    codegen::FuseOptions options;
    options.tables = false;
    const std::string without = print(codegen::lower(module, module.function("main"), options));
    const std::vector<std::string> asked = lower(module).asked;
    REQUIRE(asked.size() == 2);
    CHECK(print(lower(module, {asked[0], asked[1]}).program) == without);
    // One of the two alone.
    for (const std::size_t refused : {0, 1}) {
      const Program program = lower(module, {asked[refused]}).program;
      std::set<GemmEpilogue> found;
      for (const GemmLaunch* gemm : gemm_launches(program)) found.insert(gemm->epilogue);
      CHECK(found ==
            std::set{GemmEpilogue::none, refused == 0 ? GemmEpilogue::gelu_gradient : GemmEpilogue::gelu});
    }
  }
}

TEST_CASE("another activation, or GELU that a kernel reads, is no product's epilogue") {
  struct Other {
    std::string name;
    Activation activation;
  };
  const std::vector<Other> others = {
      {"gelu by erf", [](ir::Builder& b, Value x) { return b.unary(Opcode::gelu, x); }},
      {"silu", [](ir::Builder& b, Value x) { return b.unary(Opcode::silu, x); }},
      {"gelu by the sigmoid",
       [](ir::Builder& b, Value x) { return b.mul(x, b.unary(Opcode::sigmoid, b.mul(x, 1.702))); }},
      {"twice", [](ir::Builder& b, Value x) { return b.mul(gelu_by_tanh(b, x), 2.0); }},
      {"of twice", [](ir::Builder& b, Value x) { return gelu_by_tanh(b, b.mul(x, 2.0)); }},
      {"clipped far out",
       [](ir::Builder& b, Value x) {
         const Value most = b.broadcast(b.constant(1e6), b.shape(x));
         return b.emit(Opcode::minimum, {gelu_by_tanh(b, x), most});
       }},
      {"a row's", [](ir::Builder& b, Value x) { return b.sub(gelu_by_tanh(b, x), b.mean(x, {2})); }},
  };
  for (const auto& [name, activation] : others) {
    for (const bool train : {false, true}) {
      CAPTURE(name, train);
      Mlp mlp;
      mlp.activation = activation, mlp.train = train;
      const auto [program, asked] = lower(build(mlp));
      CHECK(asked.empty());
      CHECK(std::ranges::all_of(gemm_launches(program),
                                [](const GemmLaunch* gemm) { return gemm->epilogue == GemmEpilogue::none; }));
    }
  }
  // The gradient does not know of what is added.
  Mlp shifted;
  shifted.activation = [](ir::Builder& b, Value x) { return b.add(gelu_by_tanh(b, x), 1e-3); };
  CHECK(lower(build(shifted)).asked.empty());
  shifted.train = true;
  CHECK(lower(build(shifted)).asked == std::vector<std::string>{"epilogue gelu_gradient 21x24x16 f32"});
  Mlp read;
  read.show_activated = true;
  CHECK(lower(build(read)).asked.empty());
  // What stands between, as dropout does, reads it in the kernel that computes it.
  Mlp scaled;
  scaled.behind = [](ir::Builder& b, Value x) { return b.mul(x, b.unary(Opcode::exp, b.mean(x, {2}))); };
  scaled.train = true;
  CHECK(lower(build(scaled)).asked.empty());
  Mlp bare;
  bare.has_bias = false;
  CHECK(lower(build(bare)).asked.empty());
}

TEST_CASE("GELU by tanh is told by what it computes, however it is written") {
  Mlp mlp;
  mlp.train = true;
  // x sigmoid(2 u) is x (1 + tanh u) / 2.
  mlp.activation = [](ir::Builder& b, Value x) {
    const Value u = b.mul(b.add(x, b.mul(b.mul(b.mul(x, x), x), 0.044715)), 0.7978845608028654);
    return b.mul(x, b.unary(Opcode::sigmoid, b.mul(u, 2.0)));
  };
  CHECK(lower(build(mlp)).asked.size() == 2);
}

TEST_CASE("one kernel an op knows no epilogue") {
  codegen::FuseOptions options;
  options.fuse = false;
  options.epilogue = [](const ProductEpilogue&) -> bool {
    FAIL_CHECK("asked");
    return true;
  };
  const ir::Module module = build({});
  CHECK(gemm_launches(codegen::lower(module, module.function("main"), options))[0]->epilogue ==
        GemmEpilogue::none);
}
