// Attention by cuDNN on the fake library, which judges every descriptor and computes what the graph says:
// equal to the evaluator, chosen by timing and replayed to the same bits (the second engine's are others),
// ours where it refuses, is too old or fails.
#include "runtime/exec/cuda/tune/attention_choices.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "ir/error.h"
#include "runtime/exec/cuda/engine.h"
#include "runtime/exec/cuda/tune/gemm_choices.h"
#include "tests/runtime_cuda/fake_run.h"
#include "tests/runtime_cuda/timing_here.h"
#include "tests/support/accuracy.h"
#include "tests/support/attention_module.h"
#include "tests/support/bf16_tensors.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

using Heads = testing::AttentionHeads;

constexpr const char* kFirst = "cuDNN 9.99.0 engine 1, knobs 24=7";
constexpr const char* kSecond = "cuDNN 9.99.0 engine 2, knobs";

ir::Module example(const Heads& heads, ir::DType dtype = ir::DType::bf16) {
  return testing::attention_module(heads, 0.3, dtype);
}

TensorMap inputs_of(const ir::Module& module) {
  const ir::Function& main = module.function("main");
  const std::vector<ir::Tensor> tensors = testing::bf16_arguments(main, 7);
  TensorMap inputs;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    inputs.emplace(main.arguments[i].name, to_host(tensors[i]));
  return inputs;
}

TunerOptions options(const std::string& folder) {
  return timing_in(folder,
                   [](const ir::Module& module, const std::vector<std::string>& functions, Tuner& tuner) {
                     DevicePrograms programs(module, functions, tuner.record());
                     choose_attention(programs, {}, tuner);
                     choose_algorithms(programs, tuner);
                   });
}

/// What is recorded of attention.
std::vector<MadeChoice> choose(const ir::Module& module, Tuner& tuner) {
  ir::Module asked = module;
  make_choices(asked, {"main"}, tuner);
  std::vector<MadeChoice> made;
  for (const MadeChoice& choice : tuner.record().made()) {
    if (choice.key.starts_with("attention ")) made.push_back(choice);
  }
  return made;
}

/// Both passes by this answer.
ChoiceRecord all_by(const ir::Module& module, const std::string& answer) {
  const test::TemporaryFolder folder;
  TunerOptions untimed = options(folder.file("cache"));
  untimed.time = false;
  Tuner tuner(untimed);
  ChoiceRecord record;
  for (const MadeChoice& choice : choose(module, tuner)) {
    CHECK(choice.taken == kOwnKernels);
    record.add({choice.key, answer, std::string(kByTiming), {}});
  }
  return record;
}

TensorMap results(const ir::Module& module, const ChoiceRecord& choices) {
  CudaEngineOptions engine_options;
  engine_options.choices = choices;
  engine_options.check_memory = true;
  return make_cuda_engine(module, engine_options)->run("main", inputs_of(module));
}

void check_against_evaluator(const ir::Module& module, const TensorMap& actual) {
  const TensorMap expected = make_evaluator_engine(module)->run("main", inputs_of(module));
  for (const auto& [name, tensor] : expected) {
    INFO(name);
    CHECK(testing::scaled_error(to_double(tensor), to_double(actual.at(name)), 0) <= 1e-2);
  }
}

TEST_CASE("attention and its gradient by cuDNN agree with the evaluator, at any number of tokens") {
  for (const Heads& heads : {Heads{2, 2, 65, 65, 16}, Heads{1, 3, 50, 50, 32}, Heads{1, 1, 197, 197, 8},
                             Heads{1, 2, 33, 70, 80}, Heads{2, 1, 1, 17, 8}, Heads{1, 1, 130, 3, 128}}) {
    CAPTURE(heads.batch, heads.heads, heads.queries, heads.keys, heads.width);
    const Clean clean;
    const ir::Module module = example(heads);
    const ChoiceRecord ours = all_by(module, std::string(kOwnKernels)), first = all_by(module, kFirst);
    REQUIRE(first.made().size() == 2);
    const TensorMap theirs = results(module, first);
    CHECK(fake().calls("cudnnBackendExecute") == 4);  // before the capture, and in it
    check_against_evaluator(module, theirs);
    CHECK(same_bits(theirs, results(module, first)));
    const TensorMap second = results(module, all_by(module, kSecond));
    check_against_evaluator(module, second);
    fake().reset();
    check_against_evaluator(module, results(module, ours));
    CHECK(fake().calls("cudnnCreate") == 0);
  }
}

TEST_CASE("the key of a choice has all that an engine depends on") {
  const Clean clean;
  const ChoiceRecord record = all_by(example({2, 3, 65, 65, 64}), kFirst);
  REQUIRE(record.made().size() == 2);
  CHECK(record.made()[0].key ==
        "attention forward 2x3x65x65x64 bf16 scale 0.3 q=37440,64,576 k=37440,64,576 v=37440,64,576 "
        "o=12480,64,192");
  CHECK(record.made()[1].key.starts_with(
      "attention gradient 2x3x65x65x64 bf16 scale 0.3 q=37440,64,576 k=37440,64,576 v=37440,64,576 "
      "o=12480,64,192 do=12480,64,192 dq="));
}

TEST_CASE("attention that cuDNN takes not is no choice: f32, widths that are no multiple of 8 or above 128") {
  const Clean clean;
  for (const ir::Module& module :
       {example({1, 2, 9, 9, 16}, ir::DType::f32), example({1, 2, 9, 9, 12}), example({1, 1, 9, 9, 136})}) {
    CHECK(all_by(module, kFirst).made().empty());
  }
}

TEST_CASE("each shape is timed once, ours beside two engines, and the answer is replayed to the same bits") {
  const Clean clean;
  const test::TemporaryFolder folder;
  const ir::Module module = example({2, 2, 17, 17, 16});
  Tuner first(options(folder.file("cache")));
  const std::vector<MadeChoice> made = choose(module, first);
  REQUIRE(made.size() == 2);
  for (const MadeChoice& choice : made) {
    CAPTURE(choice.key, choice.taken);
    CHECK(choice.by == kByTiming);
    REQUIRE_FALSE(choice.seconds.empty());
    for (const auto& [label, seconds] : choice.seconds) {
      CHECK((label == kOwnKernels || label == "engine 1, knobs 24=7" || label == "engine 2, knobs"));
      CHECK(seconds < 10);
    }
  }
  fake().reset();
  Tuner second(options(folder.file("cache")));
  const std::vector<MadeChoice> again = choose(module, second);
  CHECK(second.timed() == 0);
  CHECK(fake().calls("cudnnBackendExecute") == 0);
  REQUIRE(again.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) CHECK(again[i].taken == made[i].taken);

  const ChoiceRecord by_second = all_by(module, kSecond);
  TunerOptions given = options(folder.file("cache"));
  given.given = by_second;
  Tuner replay(given);
  for (const MadeChoice& choice : choose(module, replay)) CHECK(choice.taken == kSecond);
  const TensorMap theirs = results(module, by_second);
  CHECK(same_bits(theirs, results(module, by_second)));
  CHECK_FALSE(same_bits(theirs, results(module, all_by(module, kFirst))));
}

TEST_CASE(
    "a recorded or kept engine is built once a shape: the choice asks cuDNN's list, the engine builds") {
  constexpr const char* kPlans = "cudnnBackendFinalize of a plan";
  const Clean clean;
  const test::TemporaryFolder folder;
  const ir::Module module = example({2, 2, 17, 17, 16});
  TunerOptions given = options(folder.file("cache"));
  given.given = all_by(module, kFirst);
  fake().reset();
  Tuner tuner(given);
  const std::vector<MadeChoice> made = choose(module, tuner);
  REQUIRE(made.size() == 2);
  CHECK(fake().calls(kPlans) == 0);
  results(module, tuner.record());
  CHECK(fake().calls(kPlans) == 2);  // forward and gradient
}

TEST_CASE("what is not timed is ours, and opens no library") {
  const Clean clean;
  const ir::Module module = example({1, 2, 17, 17, 16});
  const TensorMap plain = results(module, {});
  CHECK(same_bits(plain, results(module, all_by(module, std::string(kOwnKernels)))));
  CHECK(fake().calls("cudnnCreate") == 0);
  CHECK(fake().calls("cudnnBackendCreateDescriptor") == 0);
}

TEST_CASE("where cuDNN refuses, ours is taken: in the choice, and for a recorded answer") {
  const ir::Module module = example({1, 2, 17, 17, 16});
  const TensorMap ours = [&] {
    const Clean clean;
    return results(module, {});
  }();
  for (const char* rule : {"attention", "attention_engine", "attention_plan"}) {
    CAPTURE(rule);
    const Clean clean;
    const ChoiceRecord recorded = all_by(module, kFirst);
    fake().refuse(rule);
    const test::TemporaryFolder folder;
    Tuner tuner(options(folder.file("cache")));
    for (const MadeChoice& choice : choose(module, tuner)) CHECK(choice.taken == kOwnKernels);
    CHECK(same_bits(ours, results(module, recorded)));
    if (std::string_view(rule) == "attention_plan") continue;  // the list names it: results() took ours
    TunerOptions given = options(folder.file("other"));
    given.given = recorded;
    Tuner again(given);
    for (const MadeChoice& choice : choose(module, again)) CHECK(choice.taken == kOwnKernels);
    CHECK(again.refused() == 2);
  }
  const Clean clean;
  const ChoiceRecord recorded = all_by(module, kFirst);
  fake().refuse("attention_gradient");
  const TensorMap mixed = results(module, recorded);
  CHECK(fake().calls("cudnnBackendExecute") == 2);  // forward alone
  check_against_evaluator(module, mixed);
  for (const char* elsewhere : {"cuDNN 9.11.0 engine 1, knobs 24=7", "cuDNN 9.99.0 engine 5, knobs"})
    CHECK(same_bits(ours, results(module, all_by(module, elsewhere))));
}

TEST_CASE("a failing call of cuDNN's names itself or leaves the work to our kernels, and nothing is lost") {
  const ir::Module module = example({1, 1, 9, 9, 8});
  ChoiceRecord recorded;
  TensorMap ours, theirs;
  std::map<std::string, long> counts;
  {
    const Clean clean;
    recorded = all_by(module, kFirst);
    ours = results(module, {});
    fake().reset();
    theirs = results(module, recorded);
    for (const char* call :
         {"cudnnCreate", "cudnnSetStream", "cudnnBackendCreateDescriptor", "cudnnBackendSetAttribute",
          "cudnnBackendGetAttribute", "cudnnBackendFinalize", "cudnnBackendExecute"})
      counts.emplace(call, fake().calls(call));
  }
  for (const auto& [call, count] : counts) {
    CHECK(count > 0);
    for (const long nth : std::set<long>{1, 2, count / 3, count / 2, count - 1, count}) {
      if (nth < 1 || nth > count) continue;
      CAPTURE(call, nth);
      const Clean clean;
      fake().fail(call.c_str(), nth, 4000);
      try {
        check_against_evaluator(module, results(module, recorded));
      } catch (const RuntimeFailure& failure) {
        const std::string message = failure.what();
        CHECK(message.starts_with(call + " for attention "));
        CHECK(message.find("CUDNN_STATUS of the fake library (a test wants it so)") != std::string::npos);
        CHECK(message.find('\n') == std::string::npos);
      }
    }
  }
}

TEST_CASE("a failing call of cuDNN's while candidates are timed leaves ours in the race") {
  const ir::Module module = example({1, 1, 9, 9, 8});
  std::map<std::string, long> counts;
  {
    const Clean clean;
    const test::TemporaryFolder folder;
    Tuner tuner(options(folder.file("cache")));
    choose(module, tuner);
    for (const char* call : {"cudnnCreate", "cudnnSetStream", "cudnnBackendSetAttribute",
                             "cudnnBackendGetAttribute", "cudnnBackendFinalize", "cudnnBackendExecute"})
      counts.emplace(call, fake().calls(call));
  }
  for (const auto& [call, count] : counts) {
    for (const long nth : std::set<long>{1, count / 2, count}) {
      CAPTURE(call, nth);
      const Clean clean;
      const test::TemporaryFolder folder;
      fake().fail(call.c_str(), nth, 4000);
      Tuner tuner(options(folder.file("cache")));
      const std::vector<MadeChoice> made = choose(module, tuner);
      REQUIRE(made.size() == 2);
      for (const MadeChoice& choice : made) {
        for (const auto& [label, seconds] : choice.seconds) CHECK(seconds < 10);
      }
    }
  }
}

TEST_CASE("an old or new device and library: what the gradient is refused for") {
  const Clean clean;
  const cuda::Context context;
  const codegen::Cudnn library;
  codegen::DeviceAttentionShape shape;
  shape.batch = 1, shape.heads = 1, shape.queries = 4, shape.keys = 4, shape.width = 8;
  for (auto* tensor :
       {&shape.q, &shape.k, &shape.v, &shape.output, &shape.d_output, &shape.dq, &shape.dk, &shape.dv})
    *tensor = {32, 32, 8};
  CHECK_NOTHROW(codegen::CudnnAttention(library, 100, shape, kAttentionWorkspace));
  shape.gradient = true;
  CHECK_NOTHROW(codegen::CudnnAttention(library, 90, shape, kAttentionWorkspace));
  CHECK_THROWS_AS(codegen::CudnnAttention(library, 100, shape, kAttentionWorkspace),
                  codegen::UnsupportedGraph);
  CHECK_THROWS_AS(codegen::CudnnAttention(library, 90, shape, 64), codegen::UnsupportedGraph);
  shape.queries = shape.keys = 1;
  CHECK_THROWS_AS(codegen::CudnnAttention(library, 90, shape, kAttentionWorkspace),
                  codegen::UnsupportedGraph);
}

}  // namespace
}  // namespace rewire::runtime
