// One meaning of a cast on both engines of the CPU.
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

}  // namespace
}  // namespace rewire
