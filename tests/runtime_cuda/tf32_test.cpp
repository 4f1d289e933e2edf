// Products of f32 matrices by TF32, where a module allows it: rounded as the evaluator rounds them, told
// apart in choices and profiles, and nothing else rounded. On the fake library, whose TF32 rounds to nearest.
#include <algorithm>
#include <cmath>

#include "ir/builder.h"
#include "ir/opcodes.h"
#include "ir/passes/mixed_precision.h"
#include "ir/verify.h"
#include "runtime/exec/cuda/device_programs.h"
#include "runtime/exec/cuda/engine.h"
#include "runtime/exec/cuda/tf32_notice.h"
#include "runtime/exec/cuda/tune/gemm_choices.h"
#include "tests/runtime_cuda/fake_run.h"
#include "tests/support/accuracy.h"
#include "tests/support/catch.h"
#include "tests/support/host_noise.h"

namespace rewire::runtime {
namespace {

using ir::DType;
using ir::Opcode;
using ir::Value;

/// Results: a product, one with gradients' transposes, the same of bf16, and a Fourier transform there and
/// back.
ir::Module example(bool tf32) {
  ir::Module module;
  module.name = "example";
  ir::allow_tf32(module, tf32);
  ir::Function& function = module.functions.emplace_back();
  function.name = "products";
  ir::Builder b(module, function);
  const Value x = b.argument("x", {DType::f32, {9, 21}}), w = b.argument("w", {DType::f32, {21, 21}});
  b.result("product", b.matmul(x, w));
  b.result("transposed", b.matmul(x, x, true, false));
  b.result("narrow", b.cast(b.matmul(b.cast(x, DType::bf16), b.cast(w, DType::bf16)), DType::f32));
  const Value spectrum = b.emit(Opcode::rfft, {x});
  b.result("spectrum", spectrum);
  b.result("back", b.emit(Opcode::irfft, {b.mul(spectrum, 2)}, {{"length", std::int64_t{21}}}));
  ir::verify(module);
  return module;
}

TensorMap inputs() {
  TensorMap inputs;
  inputs.emplace("x", testing::noise({9, 21}, 1));
  inputs.emplace("w", testing::noise({21, 21}, 2));
  return inputs;
}

double error(const TensorMap& actual, const TensorMap& expected, const std::string& name) {
  return testing::scaled_error(to_double(expected.at(name)), to_double(actual.at(name)), 0);
}

TEST_CASE("a module that allows TF32 has its f32 products rounded to it, and nothing else") {
  fake().reset();
  const TensorMap exact = make_evaluator_engine(example(true))->run("products", inputs());
  const TensorMap rounded = make_evaluator_engine(example(true), Rounding::dtypes)->run("products", inputs());
  const TensorMap wide = make_cuda_engine(example(false))->run("products", inputs());
  const TensorMap narrow = make_cuda_engine(example(true))->run("products", inputs());
  for (const char* name : {"product", "transposed"}) {
    CAPTURE(name);
    CHECK(error(narrow, exact, name) > 1e-5);
    CHECK(error(narrow, exact, name) < 2e-3);
    CHECK(error(narrow, rounded, name) < 1e-6);
    CHECK(error(wide, exact, name) < 1e-6);
  }
  for (const char* name : {"spectrum", "back"}) {
    CAPTURE(name);
    CHECK(error(narrow, exact, name) < 2e-6);
  }
  CHECK(std::ranges::equal(narrow.at("narrow").bytes(), wide.at("narrow").bytes()));
  CHECK(std::string(fake().faults()).empty());
  CHECK(std::string(fake().live()).empty());
}

TEST_CASE("a product by TF32 is a choice of its own, and a profile says what it is") {
  fake().reset();
  for (const bool tf32 : {false, true}) {
    CAPTURE(tf32);
    TunerOptions options;
    options.time = false;
    options.late_choices = [](const ir::Module& of, const std::vector<std::string>& functions,
                              Tuner& chooser) {
      DevicePrograms programs(of, functions);
      choose_algorithms(programs, chooser);
    };
    Tuner tuner(options);
    ir::Module module = example(tf32);
    make_choices(module, {"products"}, tuner);
    const auto of_tf32 = std::ranges::count_if(tuner.record().made(), [](const MadeChoice& choice) {
      return choice.key.find(" f32 tf32 ") != std::string::npos;
    });
    CHECK(of_tf32 == (tf32 ? 2 : 0));
    const auto engine = make_cuda_engine(module);
    const std::vector<LaunchTime> times = engine->profile("products", inputs(), 1);
    CHECK(std::ranges::count_if(times, [](const LaunchTime& time) {
            return time.name.find(" tf32 ") != std::string::npos;
          }) == of_tf32);
  }
}

TEST_CASE("products that leave the tensor cores idle are said, if they are most of the work") {
  const auto notice = [](std::int64_t rows, DType dtype, bool tf32, bool convolves) {
    const Clean clean;
    ir::Module module;
    ir::Function& main = module.functions.emplace_back();
    main.name = "main";
    ir::Builder b(module, main);
    if (convolves) {
      b.result("y",
               b.emit(Opcode::conv2d,
                      {b.argument("x", {dtype, {rows, 64, 8, 8}}), b.argument("w", {dtype, {64, 64, 3, 3}})},
                      {{"strides", ir::Ints{1, 1}}, {"padding", ir::Ints{1, 1}}}));
    } else {
      b.result("y", b.matmul(b.argument("x", {dtype, {rows, 1024}}), b.argument("w", {dtype, {1024, 1024}})));
    }
    return idle_tensor_cores(DevicePrograms(module, {"main"}).programs, tf32);
  };
  for (const bool convolves : {false, true}) {
    CAPTURE(convolves);
    const std::int64_t rows = convolves ? 512 : 1024;
    CHECK_THAT(notice(rows, DType::f32, false, convolves), REWIRE_CATCH_CONTAINS("train.tf32=true"));
    CHECK(notice(rows, DType::f32, true, convolves).empty());
    CHECK(notice(rows, DType::bf16, false, convolves).empty());
    CHECK(notice(rows / 8, DType::f32, false, convolves).empty());
  }
}

}  // namespace
}  // namespace rewire::runtime
