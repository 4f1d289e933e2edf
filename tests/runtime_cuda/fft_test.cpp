// Fourier transforms on a GPU by cuFFT, on the fake library, which like the real one may overwrite what the
// inverse reads and says nothing of imaginary parts that must be 0: against the evaluator, with gradients;
// plans, capture, errors, refusals, and the choice between cuFFT and a matrix product.
#include "codegen/library/cufft.h"

#include <algorithm>
#include <functional>
#include <sstream>

#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "runtime/device/cuda/device.h"
#include "runtime/exec/cuda/engine.h"
#include "runtime/exec/cuda/tune/fourier_choices.h"
#include "tests/runtime_cuda/fake_run.h"
#include "tests/runtime_cuda/timing_here.h"
#include "tests/runtime_cuda/transforms.h"
#include "tests/support/accuracy.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

using ir::DType;
using ir::FourierRows;
using ir::Opcode;
using ir::Value;
using testing::TransformCase;

TensorMap run(const ir::Module& module, const std::vector<ir::Tensor>& inputs, const ChoiceRecord& choices) {
  CudaEngineOptions options;
  options.choices = choices;
  options.check_memory = true;
  TensorMap arguments;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    arguments.emplace(module.function("main").arguments[i].name, to_host(inputs[i]));
  const auto engine = make_cuda_engine(module, options);
  engine->run("main", arguments);
  return engine->run("main", arguments);
}

void check_against_evaluator(const ir::Module& module, const std::vector<ir::Tensor>& inputs,
                             const TensorMap& actual) {
  ir::EvalState state;
  const ir::Function& main = module.function("main");
  const std::vector<ir::Tensor> expected = ir::evaluate(module, main, inputs, state);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::string& name = main.results[i].name;
    CAPTURE(name);
    const double tolerance = expected[i].type.dtype == DType::f64 ? 1e-11 : 5e-6;
    CHECK(testing::scaled_error(expected[i], to_double(actual.at(name)), 0) <= tolerance);
  }
}

/// What plans were run since the last reset, in that order.
std::vector<std::string> transforms_run() {
  std::vector<std::string> list;
  std::istringstream lines{std::string(fake().trace())};
  for (std::string line; std::getline(lines, line);) {
    if (const std::size_t at = line.find("cufftExec"); at != std::string::npos)
      list.push_back(line.substr(at));
  }
  return list;
}

TEST_CASE("transforms by cuFFT and their gradients are those of the evaluator, at any length") {
  const Clean clean;
  const std::vector<TransformCase> cases = {
      {1, 1, DType::f32},  {5, 2, DType::f32},    {3, 3, DType::f64},
      {5, 8, DType::f32},  {1, 8, DType::f64},    {4, 15, DType::f32},
      {2, 96, DType::f32}, {1, 1025, DType::f64}, {3, 1026, DType::f32}};
  for (const TransformCase& of : cases) {
    CAPTURE(ir::dtype_name(of.dtype), of.length, of.rows);
    fake().reset();
    const ir::Module module = testing::transform_module(of);
    const std::vector<ir::Tensor> inputs = testing::transform_inputs(module, 7);
    const TensorMap actual = run(module, inputs, testing::all_by_cufft(module));
    check_against_evaluator(module, inputs, actual);
    CHECK(fake().calls(of.dtype == DType::f64 ? "cufftExecD2Z" : "cufftExecR2C") > 0);
    CHECK(fake().calls(of.dtype == DType::f64 ? "cufftExecZ2D" : "cufftExecC2R") > 0);
    CHECK(fake().calls("cuLaunchHostFunc") == 0);
    CHECK(fake().calls("cufftDestroy") == fake().calls("cufftCreate"));
  }
}

TEST_CASE("without a choice short rows are products, and long ones cuFFT's if they are of f32 or f64") {
  const Clean clean;
  const auto calls = [](std::int64_t length, DType dtype) {
    fake().reset();
    const ir::Module module = testing::transform_module({2, length, dtype});
    run(module, testing::transform_inputs(module, 3), {});
    return std::pair(fake().calls("cufftCreate") > 0, fake().calls("cuLaunchHostFunc") > 0);
  };
  CHECK(calls(1024, DType::f32) == std::pair(false, false));
  CHECK(calls(1025, DType::f32) == std::pair(true, false));
  CHECK(calls(1025, DType::bf16) == std::pair(false, true));
}

TEST_CASE("equal transforms of all programs share a plan, captured in the order of the program") {
  const Clean clean;
  ir::Module module = testing::transform_module({4, 15, DType::f32});
  module.functions.push_back(module.functions[0]);
  module.functions[1].name = "again";
  const std::vector<ir::Tensor> inputs = testing::transform_inputs(module, 5);
  TensorMap arguments;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    arguments.emplace(module.function("main").arguments[i].name, to_host(inputs[i]));
  std::vector<TensorMap> results;
  for (const unsigned long order : {0UL, 3UL, 11UL}) {
    fake().reset();
    fake().order(order);
    CudaEngineOptions options;
    options.choices = testing::all_by_cufft(module);
    const auto engine = make_cuda_engine(module, options);
    results.push_back(engine->run("main", arguments));
    const long plans = fake().calls("cufftCreate");
    CHECK(plans == static_cast<long>(options.choices.made().size()));
    results.push_back(engine->run("again", arguments));
    CHECK(fake().calls("cufftCreate") == plans);
    fake().reset();
    engine->run("main", arguments);
    CHECK(fake().calls("cufftExecR2C") + fake().calls("cufftExecC2R") == 0);  // the graph replays them
    const std::vector<std::string> replayed = transforms_run();
    REQUIRE(replayed.size() >= 4);
    CHECK(replayed.front() == "cufftExecR2C");
    CHECK(replayed.back() == "cufftExecC2R");  // of a gradient
  }
  for (const TensorMap& other : results) CHECK(same_bits(results[0], other));
}

TEST_CASE("what the inverse reads stays for those who read it after it") {
  const Clean clean;
  for (const bool of_kernel : {false, true}) {
    CAPTURE(of_kernel);
    ir::Module module;
    ir::Function& main = module.functions.emplace_back();
    main.name = "main";
    ir::Builder b(module, main);
    const Value given = b.argument("pairs", {DType::f32, {3, 4, 2}});
    const Value pairs = of_kernel ? b.mul(given, given) : given;
    for (const std::int64_t length : {6, 7})
      b.result(length == 6 ? "even" : "odd", b.emit(Opcode::irfft_pairs, {pairs}, {{"length", length}}));
    b.result("after", b.add(pairs, 1));
    ir::verify(module);
    std::vector<ir::Tensor> inputs = testing::transform_inputs(module, 2);
    for (std::size_t row = 0; row < 3; ++row) inputs[0].data[8 * row + 1] = inputs[0].data[8 * row + 7] = 0;
    check_against_evaluator(module, inputs, run(module, inputs, {}));
    CHECK(fake().calls("cuLaunchHostFunc") == 0);
  }
}

TEST_CASE("rows that do not begin at a complex number's alignment are transformed all the same") {
  const Clean clean;
  ir::Module module;
  ir::Function& main = module.functions.emplace_back();
  main.name = "main";
  ir::Builder b(module, main);
  std::vector<Value> rows, back;
  for (const char* name : {"x", "y"}) {
    rows.push_back(b.mul(b.argument(name, {DType::f32, {3, 5}}), 2));
    const Value pairs = b.argument(std::string(name) + "_pairs", {DType::f32, {3, 3, 2}});
    // The zero bin's imaginary part is none of a real row's.
    const Value mask = b.emit(Opcode::constant, {}, {{"values", ir::Doubles{1, 0, 1, 1, 1, 1}}},
                              ir::TensorType{DType::f32, {3, 2}});
    back.push_back(b.emit(Opcode::irfft_pairs, {b.mul(pairs, mask)}, {{"length", std::int64_t{5}}}));
  }
  b.result("rows", b.concat(rows, 0));
  b.result("spectrum", b.emit(Opcode::rfft_pairs, {rows[1]}));
  b.result("back", b.concat(back, 0));
  ir::verify(module);
  const std::vector<ir::Tensor> inputs = testing::transform_inputs(module, 8);
  check_against_evaluator(module, inputs, run(module, inputs, {}));
  CHECK(fake().calls("cuLaunchHostFunc") == 0);
  CHECK(fake().calls("cufftExecC2R") > 0);
}

TEST_CASE("an error of every call of cuFFT's names the call, and nothing is lost") {
  const Clean clean;
  for (const DType dtype : {DType::f32, DType::f64}) {
    const ir::Module module = testing::transform_module({3, 15, dtype});
    const std::vector<ir::Tensor> inputs = testing::transform_inputs(module, 5);
    const ChoiceRecord choices = testing::all_by_cufft(module);
    std::vector<std::string> calls = {"cufftCreate", "cufftSetAutoAllocation", "cufftMakePlanMany64",
                                      "cufftSetStream", "cufftSetWorkArea"};
    for (const char* direction : {"R2C", "C2R", "D2Z", "Z2D"}) {
      if ((direction[0] == 'D' || direction[0] == 'Z') == (dtype == DType::f64))
        calls.push_back(std::string("cufftExec") + direction);
    }
    for (const std::string& call : calls) {
      CAPTURE(call);
      fake().reset();
      fake().fail(call.c_str(), 2, 5);
      const std::string message = test::message_of<RuntimeFailure>([&] { run(module, inputs, choices); });
      CHECK(message.starts_with(call + " for "));
      CHECK(message.find("length=15 " + std::string(ir::dtype_name(dtype)) + ": CUFFT_INTERNAL_ERROR") !=
            std::string::npos);
      CHECK(std::string(fake().live()).empty());
    }
  }
}

TEST_CASE("what cuFFT refuses is a product if it is short, and the host's if it is long") {
  const Clean clean;
  for (const std::int64_t length : {15, 1025}) {
    CAPTURE(length);
    fake().reset();
    fake().refuse("fft");
    const ir::Module module = testing::transform_module({2, length, DType::f32});
    const std::vector<ir::Tensor> inputs = testing::transform_inputs(module, 4);
    check_against_evaluator(module, inputs, run(module, inputs, testing::all_by_cufft(module)));
    CHECK((fake().calls("cuLaunchHostFunc") > 0) == (length == 1025));
    CHECK(fake().calls("cufftDestroy") == fake().calls("cufftCreate"));
  }
  fake().refuse("fft");
  const cuda::Context context;
  CHECK(test::message_of<codegen::UnsupportedTransform>([] {
          codegen::DeviceFft(FourierRows{2, 8, true, DType::f64});
        }) == "cufftMakePlanMany64 for irfft rows=2 length=8 f64: CUFFT_NOT_SUPPORTED");
  CHECK(test::message_of<codegen::UnsupportedTransform>([] {
          codegen::DeviceFft(FourierRows{2, 8, false, DType::bf16});
        }) == "cuFFT for rfft rows=2 length=8 bf16: real rows must be f32 or f64");
}

/// Asked for a module's transforms alone.
TunerOptions options(const std::string& folder) {
  return timing_in(folder, [](const ir::Module& module, const std::vector<std::string>& functions,
                              Tuner& tuner) { choose_transforms(module, functions, tuner, device_trial); });
}

ChoiceRecord choose(ir::Module module, Tuner& tuner) {
  make_choices(module, {"main"}, tuner);
  return tuner.record();
}

TEST_CASE("which of the two transforms short rows is timed once and recorded; long rows have no choice") {
  const Clean clean;
  const test::TemporaryFolder folder;
  const ir::Module module = testing::transform_module({6, 200, DType::f32});
  Tuner first(options(folder.file("cache")));
  const ChoiceRecord record = choose(module, first);
  REQUIRE(record.made().size() == 2);
  CHECK(record.made()[0].key == "fourier rfft rows=6 length=200 f32");
  CHECK(record.made()[1].key == "fourier irfft rows=6 length=200 f32");
  CHECK(first.timed() == 2);
  for (const MadeChoice& choice : record.made()) {
    CHECK(choice.by == kByTiming);
    CHECK((choice.taken == "product" || choice.taken == "cuFFT 12.9.3"));
    CHECK(is_fourier_answer(choice.taken));
    CHECK_FALSE(choice.seconds.empty());
  }
  Tuner second(options(folder.file("cache")));
  CHECK(choose(module, second) == record);
  CHECK(second.timed() == 0);

  // What is recorded is computed; of another version it is chosen anew.
  ChoiceRecord given, old;
  for (const MadeChoice& choice : record.made()) {
    given.add({choice.key, "cuFFT 12.9.3", choice.by, {}});
    old.add({choice.key, "cuFFT 1.2.3", choice.by, {}});
  }
  TunerOptions replay = options("");
  replay.given = given;
  Tuner third(replay);
  CHECK(choose(module, third) == given);
  CHECK(third.refused() == 0);
  replay.given = old;
  Tuner fourth(replay);
  CHECK(choose(module, fourth).made()[0].taken == "product");
  CHECK(fourth.refused() == 2);
  CudaEngineOptions engine_options;
  engine_options.choices = given;
  const auto engine = make_cuda_engine(module, engine_options);
  TensorMap arguments;
  const std::vector<ir::Tensor> inputs = testing::transform_inputs(module, 1);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    arguments.emplace(module.function("main").arguments[i].name, to_host(inputs[i]));
  const std::vector<LaunchTime> times = engine->profile("main", arguments, 1);
  for (const char* name : {"rfft rows=6 length=200 f32 by cuFFT", "irfft rows=6 length=200 f32 by cuFFT"}) {
    const auto row = std::ranges::find(times, name, &LaunchTime::name);
    REQUIRE(row != times.end());
    CHECK(row->flops > 0);
    CHECK(row->bytes > 0);
  }

  Tuner fifth(options(folder.file("cache")));
  const ChoiceRecord only = choose(testing::transform_module({6, 1100, DType::f64}), fifth);
  REQUIRE(only.made().size() == 2);
  for (const MadeChoice& choice : only.made()) {
    CHECK(choice.taken == "cuFFT 12.9.3");
    CHECK(choice.by == kByModel);
  }
  fake().refuse("fft");
  Tuner sixth(options(folder.file("other")));
  const ChoiceRecord refused = choose(module, sixth);
  REQUIRE(refused.made().size() == 2);
  for (const MadeChoice& choice : refused.made()) CHECK(choice.taken == "product");
}

}  // namespace
}  // namespace rewire::runtime
