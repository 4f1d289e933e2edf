// One meaning of a cast on both engines of the CPU.
#include "ir/builder.h"
#include "ir/opcodes.h"
#include "runtime/exec/engine.h"
#include "tests/support/cast_check.h"

namespace rewire {
namespace {

TEST_CASE("A cast means the same compiled and evaluated, at the edges of every pair of dtypes") {
  for (const testing::CastEdges& edges : testing::cast_edges()) {
    runtime::TensorMap inputs;
    inputs.emplace("x", runtime::to_host(edges.input));
    runtime::JitEngineOptions options;
    options.threads = 1;
    options.optimise = false;
    testing::check_cast(edges, runtime::make_jit_engine(edges.module, options)->run("main", inputs).at("y"));
    testing::check_cast(edges, runtime::make_evaluator_engine(edges.module)->run("main", inputs).at("y"));
  }
}

TEST_CASE("A seed and a step at the ends of i64 draw the same numbers compiled and evaluated") {
  for (const double value : {1e300, -1e300, 9007199254740992.0, -1.0}) {
    CAPTURE(value);
    ir::Module module;
    module.name = "draws";
    ir::Function& main = module.functions.emplace_back();
    main.name = "main";
    ir::Builder b(module, main);
    const ir::Value end = b.cast(b.argument("x", {ir::DType::f64, {}}), ir::DType::i64);
    b.result("y", b.emit(ir::Opcode::random_uniform, {end, end}, {{"stream", std::string("s")}},
                         ir::TensorType{ir::DType::f32, {64}}));
    runtime::TensorMap inputs;
    inputs.emplace("x", runtime::to_host(ir::Tensor({ir::DType::f64, {}}, {value})));
    const auto draws = [&](runtime::Engine& engine) {
      return runtime::to_double(engine.run("main", inputs).at("y")).data;
    };
    CHECK(draws(*runtime::make_jit_engine(module)) == draws(*runtime::make_evaluator_engine(module)));
  }
}

}  // namespace
}  // namespace rewire
