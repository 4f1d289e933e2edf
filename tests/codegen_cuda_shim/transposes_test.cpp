// Kernels that transpose through shared memory against the interpreter, in any order of threads: sizes that
// nothing divides, every dtype, the cost model's tile and drawn ones; and those of a network against the
// evaluator. REWIRE_FUZZ_SEED=n replays one random kernel, REWIRE_FUZZ_COUNT=n runs that many.
#include "codegen/cuda/transposes_plan.h"

#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "ir/verify.h"
#include "tests/cuda_shim/device_cases.h"
#include "tests/cuda_shim/device_engine.h"
#include "tests/support/accuracy.h"
#include "tests/support/catch.h"
#include "tests/support/tile_check.h"
#include "tests/support/transposing_kernels.h"

namespace rewire::cuda_shim {
namespace {

using codegen::cuda::Schedule;
using codegen::cuda::TransposeSchedule;
using codegen::tile::Kernel;
using ir::DType;

std::uint64_t setting(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

struct PrintedTranspose {
  Kernel kernel;
  std::string name, symbol, text;
  Grid grid;
  double tolerance = 1e-5;
  std::uint64_t seed = 1;
};

PrintedTranspose print_transpose(const Kernel& kernel, const std::string& name, std::size_t number,
                                 const Schedule* schedule) {
  PrintedTranspose one{kernel, name, "transpose_" + std::to_string(number), {}, {}};
  auto source = codegen::cuda::emit(kernel, one.symbol, codegen::cuda::device_target(90), schedule);
  one.grid = {source.launch.blocks, source.launch.threads, source.launch.shared_bytes};
  one.text = std::move(source.text);
  for (const codegen::tile::Argument& argument : kernel.arguments) {
    if (argument.dtype == DType::bf16 || argument.dtype == DType::f16) one.tolerance = 1e-2;
  }
  return one;
}

void check_transposes(const std::vector<PrintedTranspose>& all) {
  std::vector<KernelText> texts;
  for (const PrintedTranspose& one : all) texts.push_back({one.symbol, one.text});
  HostCompiler compiler(kernel_folder(), codegen::cuda::prelude(), CompileOptions{2, false});
  compiler.add(texts);
  for (const PrintedTranspose& one : all) {
    test::TileCheck check;
    check.seed = one.seed;
    check.tolerance = one.tolerance;
    check.floor = 0.01;
    for (const std::uint64_t order : {std::uint64_t{0}, 2 * one.seed, 2 * one.seed + 1}) {
      GridRunner runner(order_of_seed(order));
      const auto run = [&](const Kernel&, const std::vector<void*>& arguments) {
        runner.launch(compiler.kernel(one.symbol), one.grid, arguments);
      };
      INFO(one.name << ", order " << order << "\n" << codegen::tile::print(one.kernel) << one.text);
      std::string problem;
      REQUIRE_NOTHROW(problem = test::check_kernel(one.kernel, check, run));
      CHECK(problem == "");
    }
  }
}

TEST_CASE("transposes and patches of odd sizes and every dtype agree with the interpreter") {
  std::vector<PrintedTranspose> all;
  const auto add = [&](const Kernel& kernel, const std::string& name) {
    const auto plan = codegen::cuda::plan_transpose(kernel, codegen::cuda::device_target(90));
    CAPTURE(name);
    CHECK(plan);  // the form that this file is about
    all.push_back(print_transpose(kernel, name, all.size(), nullptr));
  };
  for (const auto& [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{64, 64}, {65, 97}, {100, 70}, {33, 260}, {1000, 17}}) {
    const std::string size = std::to_string(rows) + " x " + std::to_string(columns);
    add(test::transposed(rows, columns), "f32 " + size);
    add(test::transposed(rows, columns, DType::bf16, DType::bf16, 3), "bf16 " + size);
    add(test::transposed(rows, columns, DType::bf16, DType::f32, 2), "bf16 to f32 " + size);
    add(test::transposed(rows, columns, DType::f32, DType::bf16), "f32 to bf16 " + size);
  }
  for (const DType dtype : {DType::f64, DType::f16, DType::i64, DType::i32, DType::u8, DType::i1})
    add(test::transposed(50, 72, dtype, dtype), std::string(ir::dtype_name(dtype)));
  for (const DType to : {DType::f32, DType::bf16}) {
    add(test::patches(2, 8, 8, 4, to), "patches of 4");
    add(test::patches(3, 7, 5, 4, to), "patches of 4, 7 x 5 of them");
    add(test::patches(2, 9, 11, 3, to), "patches of 3");
    add(test::patches(2, 14, 13, 2, to), "patches of 2");
  }
  check_transposes(all);
}

TEST_CASE("random kernels that transpose agree with the interpreter in tiles of any size") {
  const std::uint64_t only = setting("REWIRE_FUZZ_SEED", 0), first = only > 0 ? only : 1;
  const std::uint64_t last = only > 0 ? only : setting("REWIRE_FUZZ_COUNT", 150);
  const codegen::cuda::DeviceTarget target = codegen::cuda::device_target(90);
  std::vector<PrintedTranspose> all;
  int by_model = 0, staged_loads = 0, staged_stores = 0, packets = 0;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    const Kernel kernel = test::random_transposing_kernel(seed);
    INFO("REWIRE_FUZZ_SEED=" << seed << "\n" << codegen::tile::print(kernel));
    std::vector<Schedule> schedules;
    if (const auto plan = codegen::cuda::plan_transpose(kernel, target)) {
      ++by_model;
      schedules.emplace_back(static_cast<const TransposeSchedule&>(*plan));
    }
    std::mt19937_64 random(seed);
    const auto pick = [&](int most) { return std::uniform_int_distribution<int>(1, most)(random); };
    TransposeSchedule drawn{32 * pick(8), 1, {}};
    for (const codegen::tile::Axis& axis : kernel.axes)
      drawn.tile.push_back(std::min(pick(2) == 1 ? 4 * pick(8) : pick(33), static_cast<int>(axis.extent)));
    schedules.emplace_back(drawn);
    for (const Schedule& schedule : schedules) {
      const auto plan = codegen::cuda::plan_transpose(kernel, target, &std::get<TransposeSchedule>(schedule));
      if (!plan) continue;  // too many points
      for (const codegen::cuda::TileAccess& access : plan->accesses) {
        const bool load = std::holds_alternative<codegen::tile::Load>(*access.node);
        staged_loads += access.staged && load;
        staged_stores += access.staged && !load;
        packets += access.walk.packet > 1;
      }
      all.push_back(
          print_transpose(kernel, "REWIRE_FUZZ_SEED=" + std::to_string(seed), all.size(), &schedule));
      all.back().seed = seed;
    }
  }
  if (only == 0) {  // that the draw covers what it is for
    CHECK(by_model >= 20);
    CHECK(staged_loads >= 50);
    CHECK(staged_stores >= 15);
    CHECK(packets >= 100);
  }
  check_transposes(all);
}

/// Images to normalised patches, keys to columns behind a scale, and a padded transpose: each is one kernel.
ir::Module transposing_network() {
  ir::Module module;
  module.name = "transposing";
  ir::Function& function = module.functions.emplace_back();
  function.name = "main";
  ir::Builder b(module, function);
  const ir::Value image = b.argument("image", {DType::f32, {3, 3, 36, 20}});
  const ir::Value mean = b.argument("mean", {DType::f32, {3, 1, 1}});
  const ir::Value squares = b.reshape(b.sub(image, mean), {3, 3, 9, 4, 5, 4});
  b.result("patches", b.reshape(b.transpose(squares, {0, 2, 4, 1, 3, 5}), {3, 45, 48}));
  const ir::Value keys = b.argument("keys", {DType::f32, {2, 65, 3, 40}});
  b.result("columns", b.mul(b.transpose(keys, {0, 2, 3, 1}), 0.25));
  const ir::Value wide = b.argument("wide", {DType::f32, {97, 130}});
  const ir::Value wanted[] = {wide};
  const ir::Value padded =
      b.emit(ir::Opcode::pad, wanted, {{"low", ir::Ints{2, 0}}, {"high", ir::Ints{1, 0}}, {"value", 0.5}});
  b.result("padded", b.unary(ir::Opcode::tanh, b.transpose(padded, {1, 0})));
  ir::verify(module);
  return module;
}

TEST_CASE(
    "what a network transposes is fused, goes through shared memory, and is what the evaluator computes") {
  const ir::Module module = transposing_network();
  DeviceCases cases;
  std::vector<ir::Tensor> inputs;
  const ir::Function& function = module.function("main");
  for (const ir::Argument& argument : function.arguments) {
    ir::Tensor tensor(function.type(argument.value));
    for (std::size_t i = 0; i < tensor.data.size(); ++i)
      tensor.data[i] = std::sin(1.7 * static_cast<double>(i) + static_cast<double>(inputs.size()));
    inputs.push_back(std::move(tensor));
  }
  cases.add(module, inputs, {}, true);
  cases.compile();
  const DeviceProgram program(module, "main", true, {});
  CHECK(program.launches() == 3);
  for (const KernelText& kernel : program.kernels())
    CHECK_THAT(kernel.text, REWIRE_CATCH_CONTAINS("through shared memory"));
  ir::EvalState state;
  const std::vector<ir::Tensor> expected = ir::evaluate(module, function, inputs, state);
  for (const std::uint64_t order : {0, 1, 2}) {
    const CaseRun run = cases.run(0, order_of_seed(order));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::string& name = function.results[i].name;
      CAPTURE(name, order);
      CHECK(testing::scaled_error(expected[i], runtime::to_double(run.results.at(name)), 0) <= 1e-6);
    }
  }
}

}  // namespace
}  // namespace rewire::cuda_shim
