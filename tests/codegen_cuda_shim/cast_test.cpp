// A cast in CUDA text, run on the host, means what it means on the CPU.
#include <limits>

#include "ir/builder.h"
#include "ir/opcodes.h"
#include "tests/cuda_shim/device_cases.h"
#include "tests/support/cast_check.h"

namespace rewire::cuda_shim {
namespace {

TEST_CASE("A cast's CUDA text keeps to the range, toward zero and NaN as 0, for every pair of dtypes") {
  DeviceCases cases;
  const std::vector<testing::CastEdges> all = testing::cast_edges();
  for (const testing::CastEdges& edges : all) cases.add(edges.module, {edges.input}, {}, true);
  cases.compile();
  for (std::size_t n = 0; n < all.size(); ++n) testing::check_cast(all[n], cases.run(n).results.at("y"));
}

TEST_CASE("A constant beyond f32 is infinity in CUDA text too") {
  ir::Module module;
  module.name = "constants";
  ir::Function& main = module.functions.emplace_back();
  main.name = "main";
  ir::Builder b(module, main);
  const ir::Value x = b.argument("x", {ir::DType::f32, {3}});
  b.result("above", b.binary(ir::Opcode::minimum, x, b.constant(1e300)));
  b.result("below", b.add(x, b.constant(-1e300)));
  DeviceCases cases;
  cases.add(module, {ir::Tensor({ir::DType::f32, {3}}, {0.5, 3e38, -2})}, {}, true);
  cases.compile();
  const CaseRun run = cases.run(0);
  CHECK(runtime::to_double(run.results.at("above")).data == std::vector<double>{0.5, double{3e38F}, -2});
  for (const double value : runtime::to_double(run.results.at("below")).data)
    CHECK(value == -std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace rewire::cuda_shim
