// Sums of many equal terms, as ReLU leaves them: in one chain each addition rounds the same way.
#include <algorithm>

#include "ir/builder.h"
#include "runtime/exec/engine.h"
#include "tests/support/catch.h"

using namespace rewire;

TEST_CASE("A long sum of equal terms is right to a few units in the last place, along lanes and along rows") {
  const auto [rows, columns, axis] = GENERATE(table<std::int64_t, std::int64_t, std::int64_t>(
      {{3, 70001, 1}, {70001, 3, 0}, {8192, 4, 0}, {4097, 40, 0}, {20000, 1, 0}, {1, 129, 1}, {300, 70, 0}}));
  const double value = GENERATE(0.1, 0.7, 1.3e-3);
  CAPTURE(rows, columns, axis, value);
  ir::Module module;
  ir::Function& main = module.functions.emplace_back();
  main.name = "main";
  ir::Builder b(module, main);
  const ir::Value x = b.argument("x", {ir::DType::f32, {rows, columns}});
  // A square beside it keeps the sum in a kernel of several, as a batch norm's statistics are.
  b.result("sum", b.sum(x, {axis}));
  b.result("squares", b.sum(b.mul(x, x), {axis}));
  runtime::JitEngineOptions options;
  options.threads = 2;
  options.check_memory = true;
  const auto engine = runtime::make_jit_engine(module, options);
  runtime::HostTensor given({ir::DType::f32, {rows, columns}});
  std::ranges::fill(given.as<float>(), static_cast<float>(value));
  runtime::TensorMap inputs;
  inputs.emplace("x", std::move(given));
  const runtime::TensorMap got = engine->run("main", inputs);
  const double exact = static_cast<double>(static_cast<float>(value)),
               terms = static_cast<double>(axis == 0 ? rows : columns);
  const auto worst = [&](const char* name, double expected) {
    double error = 0;
    for (const float sum : got.at(name).as<float>())
      error = std::max(error, std::abs(static_cast<double>(sum) - expected) / expected);
    return error;
  };
  // Three levels of 128, the parts and the lanes at most: half a unit of 2^-24 for each addition.
  CHECK(worst("sum", exact * terms) < 400 * 0x1p-25);
  CHECK(worst("squares", exact * exact * terms) < 400 * 0x1p-25);
}
