// Rows by index, as CUDA text on the host, against the evaluator.
#include "tests/support/indexed_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "codegen/compile.h"
#include "ir/text.h"
#include "tests/cuda_shim/device_cases.h"
#include "tests/cuda_shim/device_engine.h"
#include "tests/cuda_shim/run_program.h"
#include "tests/support/catch.h"

namespace rewire::cuda_shim {
namespace {

TEST_CASE("rows by index as CUDA text are as evaluated, in any order of threads") {
  const std::vector<testing::IndexedCase> all = testing::indexed_cases();
  DeviceCases cases;
  for (const testing::IndexedCase& indexed : all) cases.add(indexed.module, indexed.inputs, {}, true);
  cases.compile();
  for (std::size_t k = 0; k < all.size(); ++k) {
    CAPTURE(all[k].name);
    const CaseRun run = cases.run(k);
    std::vector<ir::Tensor> results;
    for (const ir::Argument& result : all[k].module.function("main").results)
      results.push_back(runtime::to_double(run.results.at(result.name)));
    CHECK(testing::indexed_difference(all[k], results) == "");
    CHECK(differing(run, cases.run(k, order_of_seed(k))).empty());
  }
}

/// y = base, then y[at[j]] += u[j] in the order of j, in f32.
std::vector<float> added_in_order(std::vector<float> y, const std::vector<int>& at,
                                  const std::vector<float>& u, int rows, int width) {
  for (std::size_t j = 0; j < at.size(); ++j) {
    float* const to = y.data() + std::clamp(at[j], 0, rows - 1) * width;
    for (int i = 0; i < width; ++i)
      to[i] += u[j * static_cast<std::size_t>(width) + static_cast<std::size_t>(i)];
  }
  return y;
}

/// One word of three has a third of the tokens, and most words have none. All parts of the tokens are sorted
/// alone, in kernels whose sums have the bits of a loop over the tokens.
TEST_CASE("a scatter by ranks adds rows in the order of the places, in one part and in several") {
  constexpr int kRows = 700, kWidth = 37, kPlaces = 901;
  const std::int64_t counted = GENERATE(4096, 16);
  const bool based = GENERATE(true, false);
  const std::uint64_t seed = 31;
  CAPTURE(counted, based, seed);
  const std::string type = fmt::format("f32[{},{}]", kRows, kWidth);
  const ir::Module module =
      ir::parse(fmt::format("module @m {{\n"
                            "  func @main(%b: {0}, %at: i32[{1}], %u: f32[{1},{2}]) -> (y: {0}) {{\n"
                            "    %z = constant {{value = {3}}} : {0}\n"
                            "    %y = scatter_add {4}, %at, %u {{axis = 0}} : {0}\n"
                            "    return y = %y\n"
                            "  }}\n"
                            "}}\n",
                            type, kPlaces, kWidth, "0.5", based ? "%b" : "%z"),
                "test.rir");
  codegen::cuda::DeviceTarget device_target;
  codegen::Target target = codegen::cuda::machine(device_target);
  target.fuse.grain.counted_places = counted;
  ir::PassContext context;
  const DeviceProgram program(codegen::compile(module, module.function("main"), target, context).program,
                              device_target);
  CHECK(program.launches() == (counted == 4096 ? 4 : 4 * 8));

  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> base(kRows * kWidth, 0.5F), u(kPlaces * kWidth);
  if (based) std::ranges::generate(base, [&] { return normal(random); });
  std::ranges::generate(u, [&] { return normal(random); });
  std::vector<int> at(kPlaces);
  std::ranges::generate(at, [&] {
    const int drawn = static_cast<int>(random() % (kRows + 4)) - 2;
    return random() % 3 == 0 ? 17 : drawn % 5 == 0 ? drawn : 400 + drawn % 40;
  });
  const auto tensor = [](ir::DType dtype, ir::Shape shape, const auto& values) {
    return runtime::to_host(ir::Tensor({dtype, std::move(shape)}, {values.begin(), values.end()}));
  };
  runtime::TensorMap inputs, state;
  inputs.emplace("b", tensor(ir::DType::f32, {kRows, kWidth}, base));
  inputs.emplace("at", tensor(ir::DType::i32, {kPlaces}, at));
  inputs.emplace("u", tensor(ir::DType::f32, {kPlaces, kWidth}, u));
  HostCompiler compiler(kernel_folder(), codegen::cuda::prelude(), CompileOptions{2, false});
  compiler.add(program.kernels());
  const std::vector<float> expected = added_in_order(base, at, u, kRows, kWidth);
  for (const std::uint64_t order : {1, 2}) {
    FakeDevice device(order_of_seed(order));
    const ir::Tensor y = runtime::to_double(program.run(device, compiler, inputs, state).at("y"));
    CHECK(std::ranges::equal(y.data, expected));
  }
}

}  // namespace
}  // namespace rewire::cuda_shim
