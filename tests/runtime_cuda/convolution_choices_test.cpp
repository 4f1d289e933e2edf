// Convolutions of whole programs by cuDNN on the fake library: equal to the evaluator and none of them the host's, the
// engine chosen by timing and replayed to the same bits; the host's where cuDNN refuses.
#include "runtime/exec/cuda/tune/convolution_choices.h"

#include <fstream>
#include <map>
#include <memory>

#include "ir/autodiff/autodiff.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/passes/mixed_precision.h"
#include "models/model.h"
#include "programs/programs.h"
#include "runtime/exec/cuda/engine.h"
#include "runtime/network/initialise.h"
#include "tests/runtime_cuda/convolutions.h"
#include "tests/runtime_cuda/fake_run.h"
#include "tests/runtime_cuda/timing_here.h"
#include "tests/support/accuracy.h"
#include "tests/support/catch.h"
#include "tests/support/host_noise.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

using ir::DType;
using ir::Opcode;
using ir::Value;

/// main(x, w, v) -> y = conv(conv(x, w)^2, v in two groups), and the gradients of sum y^2.
ir::Module network() {
  ir::Module module;
  ir::Function& main = module.functions.emplace_back();
  main.name = "main";
  ir::Builder b(module, main);
  const auto convolve = [&](Value map, Value weight, ir::Ints strides, std::int64_t groups) {
    return b.emit(Opcode::conv2d, {map, weight},
                  {{"strides", std::move(strides)}, {"padding", ir::Ints{1, 1}}, {"groups", groups}});
  };
  const std::vector<Value> arguments = {b.argument("x", {DType::f32, {3, 3, 9, 7}}),
                                        b.argument("w", {DType::f32, {6, 3, 3, 3}}),
                                        b.argument("v", {DType::f32, {4, 3, 3, 2}})};
  const Value first = convolve(arguments[0], arguments[1], {2, 1}, 1);
  const Value y = convolve(b.mul(first, first), arguments[2], {1, 2}, 2);
  const std::vector<Value> gradients =
      ir::differentiate(b, b.reshape(b.sum(b.mul(y, y), {0, 1, 2, 3}), {}), arguments);
  b.result("y", y);
  for (std::size_t i = 0; i < gradients.size(); ++i) b.result("d" + std::to_string(i), gradients[i]);
  return module;
}

constexpr int kNetworkConvolutions = 6;  // of two, forward and both gradients

TensorMap inputs_of(const ir::Module& module) {
  TensorMap inputs;
  const ir::Function& main = module.function("main");
  for (const ir::Argument& argument : main.arguments)
    inputs.emplace(argument.name, testing::noise(main.type(argument.value).shape, 5, argument.name.c_str()));
  return inputs;
}

TensorMap results(const ir::Module& module, const ChoiceRecord& choices = {}) {
  CudaEngineOptions options;
  options.choices = choices;
  options.check_memory = true;
  const auto engine = make_cuda_engine(module, options);
  engine->run("main", inputs_of(module));
  return engine->run("main", inputs_of(module));
}

void check_against_evaluator(const ir::Module& module, const TensorMap& actual, double tolerance = 1e-5) {
  for (const auto& [name, tensor] : make_evaluator_engine(module)->run("main", inputs_of(module))) {
    INFO(name);
    CHECK(testing::scaled_error(to_double(tensor), to_double(actual.at(name)), 0) <= tolerance);
  }
}

TunerOptions options(const std::string& folder) {
  return timing_in(folder,
                   [](const ir::Module& module, const std::vector<std::string>& functions, Tuner& tuner) {
                     DevicePrograms programs(module, functions, tuner.record());
                     choose_convolutions(programs, tuner);
                   });
}

std::vector<MadeChoice> choose(const ir::Module& module, Tuner& tuner) {
  ir::Module asked = module;
  make_choices(asked, {"main"}, tuner);
  return tuner.record().made();
}

ChoiceRecord all_by(const ir::Module& module, const std::string& engine) {
  TunerOptions untimed = options("");
  untimed.time = false;
  Tuner tuner(untimed);
  ChoiceRecord record;
  for (const MadeChoice& choice : choose(module, tuner)) {
    CHECK(choice.taken == kFourth);
    record.add({choice.key, engine, std::string(kByTiming), {}});
  }
  return record;
}

TEST_CASE("no convolution of a program is the host's, in any order of the work") {
  const ir::Module module = network();
  std::vector<TensorMap> runs;
  for (const unsigned long order : {0UL, 3UL}) {
    CAPTURE(order);
    const Clean clean;
    fake().order(order);
    runs.push_back(results(module));
    CHECK(fake().calls("cuLaunchHostFunc") == 0);
    CHECK(fake().calls("cudnnBackendExecute") == 2 * kNetworkConvolutions);  // before the capture, and in it
    check_against_evaluator(module, runs.back());
  }
  CHECK(same_bits(runs[0], runs[1]));
}

TEST_CASE("maps that begin at no multiple of 16 bytes, as in a window of a concat, are written there") {
  ir::Module module;
  ir::Function& main = module.functions.emplace_back();
  main.name = "main";
  ir::Builder b(module, main);
  const Value w = b.argument("w", {DType::f32, {2, 3, 3, 3}});
  std::vector<Value> parts;
  for (const char* name : {"x", "z"})
    parts.push_back(b.emit(Opcode::conv2d, {b.argument(name, {DType::f32, {1, 5, 3, 3}}), w},
                           {{"strides", ir::Ints{1, 1}},
                            {"padding", ir::Ints{1, 1}},
                            {"groups", std::int64_t{1}},
                            {"layout", std::string("nhwc")}}));
  b.result("y", b.concat(parts, 0));  // of 30 elements each
  const Clean clean;
  check_against_evaluator(module, results(module));
  CHECK(fake().calls("cuLaunchHostFunc") == 0);
  const ChoiceRecord record = all_by(module, kFourth);
  REQUIRE(record.made().size() == 2);
  CHECK(record.made()[0].key == "convolution forward 1x3x5x3 by 2x3x3x3 nhwc f32 padding 1x1");
  CHECK(record.made()[1].key == record.made()[0].key + " aligned to 4");
}

TEST_CASE("where cuDNN refuses, the host computes convolutions, and where one engine does the next one") {
  const ir::Module module = network();
  for (const char* rule : {"convolution", "convolution_engine", "convolution_plan"}) {
    CAPTURE(rule);
    const Clean clean;
    fake().refuse(rule);
    check_against_evaluator(module, results(module));
    CHECK(fake().calls("cudnnBackendExecute") == 0);
    CHECK(fake().calls("cuLaunchHostFunc") == kNetworkConvolutions);
  }
  const Clean clean;
  fake().refuse("convolution_plan_4");
  check_against_evaluator(module, results(module));
  CHECK(fake().calls("cuLaunchHostFunc") == 0);
}

TEST_CASE("in mixed precision cuDNN convolves in bf16, and in f32 where it refuses bf16") {
  const ir::Module wide = network();
  ir::Module narrow = wide;
  ir::mixed_precision(narrow, narrow.function("main"), {});
  for (const char* rule : {"", "convolution_bf16"}) {
    CAPTURE(rule);
    const Clean clean;
    fake().refuse(rule);
    const bool refused = *rule != '\0';
    TunerOptions untimed = options("");
    untimed.time = false;
    Tuner tuner(untimed);
    const std::vector<MadeChoice> choices = choose(narrow, tuner);
    CHECK(choices.size() == kNetworkConvolutions);
    for (const MadeChoice& choice : choices)
      CHECK(choice.key.find(refused ? " f32" : " bf16") != std::string::npos);
    const TensorMap actual = results(narrow);
    CHECK(fake().calls("cuLaunchHostFunc") == 0);
    check_against_evaluator(wide, actual, 2e-2);
    if (refused) check_against_evaluator(wide, actual, 4e-3);  // results are rounded, operands are not
  }
}

TEST_CASE("convolutions of other types than f32 and bf16 are the host's") {
  for (const DType dtype : {DType::f64, DType::f16}) {
    const Clean clean;
    const ir::Module module = one_op({Opcode::conv2d, odd_shapes()[0], false, dtype});
    const ir::Function& main = module.function("main");
    TensorMap inputs;
    for (const ir::Argument& argument : main.arguments)
      inputs.emplace(argument.name, HostTensor(main.type(argument.value)));
    make_cuda_engine(module)->run("main", inputs);
    CHECK(fake().calls("cudnnBackendExecute") == 0);
    CHECK(fake().calls("cuLaunchHostFunc") == 1);
  }
}

TEST_CASE("with train.tf32 engines may round operands to TF32, and do") {
  ir::Module module = network();
  const TensorMap plain = [&] {
    const Clean clean;
    return results(module);
  }();
  ir::allow_tf32(module, true);
  const Clean clean;
  const TensorMap rounded = results(module);
  CHECK_FALSE(same_bits(plain, rounded));
  for (const auto& [name, tensor] : plain)
    CHECK(testing::scaled_error(to_double(tensor), to_double(rounded.at(name)), 0) <= 1e-2);
}

TEST_CASE("each convolution is timed once, and the answer is replayed to the same bits") {
  const Clean clean;
  const test::TemporaryFolder folder;
  const ir::Module module = network();
  Tuner first(options(folder.file("cache")));
  const std::vector<MadeChoice> made = choose(module, first);
  REQUIRE(made.size() == kNetworkConvolutions);
  CHECK(made[0].key == "convolution forward 3x3x9x7 by 6x3x3x3 nhwc f32 stride 2x1 padding 1x1");
  CHECK(made[1].key == "convolution forward 3x6x5x7 by 4x3x3x2 nhwc f32 stride 1x2 padding 1x1 groups 2");
  for (const MadeChoice& choice : made) {
    CAPTURE(choice.key, choice.taken);
    CHECK(choice.by == kByTiming);
    CHECK((choice.taken == kFourth || choice.taken == kFifth));
    for (const auto& [label, seconds] : choice.seconds)
      CHECK((label == "engine 4, knobs 24=7" || label == "engine 5, knobs"));
  }
  fake().reset();
  Tuner second(options(folder.file("cache")));
  const std::vector<MadeChoice> again = choose(module, second);
  CHECK(second.timed() == 0);
  CHECK(fake().calls("cudnnBackendExecute") == 0);
  REQUIRE(again.size() == made.size());
  for (std::size_t i = 0; i < made.size(); ++i) CHECK(again[i].taken == made[i].taken);

  const ChoiceRecord by_fifth = all_by(module, kFifth);
  TunerOptions given = options(folder.file("cache"));
  given.given = by_fifth;
  Tuner replay(given);
  for (const MadeChoice& choice : choose(module, replay)) CHECK(choice.taken == kFifth);
  const TensorMap theirs = results(module, by_fifth);
  check_against_evaluator(module, theirs);
  CHECK(same_bits(theirs, results(module, by_fifth)));
  const TensorMap unchosen = results(module);
  CHECK_FALSE(same_bits(theirs, unchosen));
  CHECK(same_bits(unchosen, results(module, all_by(module, kFourth))));
}

TEST_CASE("an engine that was chosen elsewhere, or is none here, gives way to cuDNN's first") {
  const Clean clean;
  const test::TemporaryFolder folder;
  const ir::Module module = network();
  const TensorMap unchosen = results(module);
  for (const char* elsewhere : {"cuDNN 9.11.0 engine 4, knobs 24=7", "cuDNN 9.99.0 engine 1, knobs"}) {
    const ChoiceRecord recorded = all_by(module, elsewhere);
    CHECK(same_bits(unchosen, results(module, recorded)));
    TunerOptions given = options(folder.file("cache"));
    given.given = recorded;
    Tuner tuner(given);
    choose(module, tuner);
    CHECK(tuner.refused() == kNetworkConvolutions);
  }
}

TEST_CASE("a record whose answer names no engine is refused") {
  const test::TemporaryFolder folder;
  const std::string file = folder.file("choices.json");
  std::ofstream(file) << R"([{"key": "convolution forward 1x1x1x1 by 1x1x1x1 nhwc f32", "taken": "ours"}])";
  CHECK_THAT(test::message_of<UserError>([&] { read_choice_file(file); }),
             REWIRE_CATCH_CONTAINS("'ours' is not a cuDNN engine, as 'convolution forward"));
}

TEST_CASE("a failing call of cuDNN's names itself or leaves the work to others, and nothing is lost") {
  const ir::Module module = network();
  std::map<std::string, long> counts;
  {
    const Clean clean;
    results(module);
    for (const char* call :
         {"cudnnCreate", "cudnnSetStream", "cudnnBackendCreateDescriptor", "cudnnBackendSetAttribute",
          "cudnnBackendGetAttribute", "cudnnBackendFinalize", "cudnnBackendExecute"})
      counts.emplace(call, fake().calls(call));
  }
  for (const auto& [call, count] : counts) {
    CHECK(count > 0);
    for (const long nth : {1L, count / 2 + 1, count}) {
      CAPTURE(call, nth);
      const Clean clean;
      fake().fail(call.c_str(), nth, 4000);
      try {
        check_against_evaluator(module, results(module));
      } catch (const RuntimeFailure& failure) {
        const std::string message = failure.what();
        CHECK(message.starts_with(call + " for convolution "));
        CHECK(message.find("CUDNN_STATUS of the fake library (a test wants it so)") != std::string::npos);
      }
    }
  }
}

TEST_CASE(
    "two training steps of a residual network of convolutions are the evaluator's, none of it the host's") {
  constexpr std::int64_t kBatch = 4;
  ir::Selection selection{"resnetv2"};
  selection.set("width", 8)
      .set("depths", ir::Doubles{1, 1})
      .set("form", std::string("timm"))
      .set("image", 8)
      .set("channels", 3);
  ir::Module module = models::build(selection, kBatch);
  programs::add_step_program(module, {});
  const auto evaluator = make_evaluator_engine(module);
  const Clean clean;
  CudaEngineOptions checked;
  checked.check_memory = true;
  const auto engine = make_cuda_engine(module, checked);
  for (const auto& [name, value] : initialise(module, 3)) {
    evaluator->write_state(name, value);
    engine->write_state(name, value);
  }
  for (std::uint64_t step = 0; step < 2; ++step) {
    const TensorMap inputs = testing::random_batch(kBatch, 8, step);
    const TensorMap expected = evaluator->run("step", inputs), actual = engine->run("step", inputs);
    for (const auto& [name, tensor] : expected) {
      CAPTURE(step, name);
      CHECK(testing::scaled_error(to_double(tensor), to_double(actual.at(name)), 0) <= 1e-4);
    }
  }
  for (const ir::Parameter& parameter : module.parameters) {
    INFO(parameter.name);
    const ir::Tensor weights = to_double(evaluator->read_state(parameter.name));
    CHECK(testing::scaled_error(weights, to_double(engine->read_state(parameter.name)), 1) <= 2e-3);
  }
  CHECK(fake().calls("cuLaunchHostFunc") == 0);
  CHECK(fake().calls("cudnnBackendExecute") > 0);
}

}  // namespace
}  // namespace rewire::runtime
