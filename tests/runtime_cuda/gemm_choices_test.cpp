// Algorithms of matrix products, chosen on the fake libraries, whose second algorithm gives other last bits:
// each shape is timed once, what is recorded is replayed to the same bits, what is refused is chosen anew.
#include "runtime/exec/cuda/tune/gemm_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include "codegen/library/cublas_lt.h"
#include "ir/builder.h"
#include "ir/verify.h"
#include "runtime/device/cuda/device.h"
#include "runtime/device/log.h"
#include "runtime/exec/cuda/engine.h"
#include "runtime/exec/tune/tune_keys.h"
#include "tests/runtime_cuda/fake_run.h"
#include "tests/runtime_cuda/timing_here.h"
#include "tests/support/catch.h"
#include "tests/support/host_noise.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

using ir::DType;
using ir::Value;

constexpr std::int64_t kRows = 9, kWidth = 37;

/// Two products of one shape and one of another; and a second program with the first shape alone.
ir::Module example() {
  ir::Module module;
  module.name = "example";
  for (const char* name : {"one", "two"}) {
    ir::Function& function = module.functions.emplace_back();
    function.name = name;
    ir::Builder b(module, function);
    const Value x = b.argument("x", {DType::f32, {kRows, kWidth}});
    const Value w = b.argument("w", {DType::f32, {kWidth, kWidth}});
    const Value y = b.matmul(b.matmul(x, w), w);
    b.result("y", y);
    if (function.name == "one") b.result("z", b.matmul(y, y, true, false));
  }
  ir::verify(module);
  return module;
}

TensorMap inputs() {
  TensorMap inputs;
  inputs.emplace("x", testing::noise({kRows, kWidth}, 1));
  inputs.emplace("w", testing::noise({kWidth, kWidth}, 2));
  return inputs;
}

TensorMap results(const ir::Module& module, const ChoiceRecord& choices) {
  CudaEngineOptions options;
  options.choices = choices;
  return make_cuda_engine(module, options)->run("one", inputs());
}

TunerOptions options(const std::string& folder, double seconds_a_look = 0) {
  return timing_in(
      folder,
      [](const ir::Module& module, const std::vector<std::string>& functions, Tuner& tuner) {
        DevicePrograms programs(module, functions);
        choose_algorithms(programs, tuner);
      },
      seconds_a_look);
}

ChoiceRecord choose(const ir::Module& module, Tuner& tuner) {
  ir::Module asked = module;
  make_choices(asked, {"one", "two"}, tuner);
  return tuner.record();
}

/// The record with each answer as `edit` has it.
ChoiceRecord edited(const ChoiceRecord& record, const std::function<void(std::string& answer)>& edit) {
  ChoiceRecord made;
  for (MadeChoice choice : record.made()) {
    edit(choice.taken);
    made.add(std::move(choice));
  }
  return made;
}

/// Each product by the algorithm of this place in the heuristic's order.
ChoiceRecord all_by(const ChoiceRecord& record, std::size_t rank) {
  const cuda::Context context;
  const codegen::CublasLt library;
  codegen::DeviceGemmShape any;
  any.m = any.n = any.k = 1;
  any.a.row = any.b.row = any.c.row = 1;
  ChoiceRecord made;
  const codegen::DeviceGemm gemm(library, any, 1 << 20, 3);
  const std::string other = gemm.algorithms()[rank];
  return edited(record, [&](std::string& answer) { answer = other; });
}

TEST_CASE("Each shape of all programs is timed once, and the answers stand in the record and in the cache") {
  const Clean clean;
  const test::TemporaryFolder folder;
  const ir::Module module = example();
  Tuner first(options(folder.file("cache")));
  const ChoiceRecord record = choose(module, first);
  REQUIRE(record.made().size() == 2);
  CHECK(first.timed() == 2);
  CHECK(record.made()[0].key == "gemm 9x37x37 f32 a=37,1@64 b=37,1@64 c=37,1@64");
  for (const MadeChoice& choice : record.made()) {
    CAPTURE(choice.key, choice.taken);
    CHECK(choice.by == kByTiming);
    CHECK(codegen::is_algorithm_text(choice.taken));
    REQUIRE_FALSE(choice.seconds.empty());
    for (const auto& [label, seconds] : choice.seconds) {
      CHECK(label.find(": algorithm ") == 1);
      CHECK(seconds > 0);
      CHECK(seconds < 10);
    }
  }
  fake().reset();
  Tuner second(options(folder.file("cache")));
  CHECK(answers(choose(module, second)) == answers(record));
  CHECK(second.timed() == 0);
  CHECK(fake().calls("cublasLtMatmul") == 0);
}

TEST_CASE("A recorded algorithm is what the engine runs, to the same bits") {
  const Clean clean;
  const test::TemporaryFolder folder;
  const ir::Module module = example();
  TunerOptions untimed = options(folder.file("cache"));
  untimed.time = false;
  Tuner tuner(untimed);
  const ChoiceRecord by_model = choose(module, tuner);
  CHECK(tuner.timed() == 0);
  for (const MadeChoice& choice : by_model.made()) CHECK(choice.by == kByModel);
  const TensorMap first = results(module, by_model);
  CHECK(same_bits(first, results(module, {})));
  const ChoiceRecord split = all_by(by_model, 1);
  const TensorMap second = results(module, split);
  CHECK_FALSE(same_bits(first, second));
  CHECK(same_bits(second, results(module, split)));
  // And a tuner to which it is given takes it, without the clock.
  TunerOptions given = options(folder.file("cache"));
  given.given = split;
  Tuner replay(given);
  CHECK(choose(module, replay) == split);
  CHECK(replay.timed() == 0);
}

TEST_CASE("Products whose two runs differ in a bit are struck, and the heuristic's first is taken") {
  const Clean clean;
  const test::TemporaryFolder folder;
  const ir::Module module = example();
  fake().refuse("unsteady");
  std::vector<std::string> lines;
  const LogListener listener([&](LogLevel level, std::string_view line) {
    if (level == LogLevel::warning) lines.emplace_back(line);
  });
  Tuner tuner(options(folder.file("cache")));
  const ChoiceRecord record = choose(module, tuner);
  REQUIRE(record.made().size() == 2);
  for (const MadeChoice& choice : record.made()) {
    CHECK(choice.by == kByModel);
    CHECK(choice.taken.find("algorithm 1,") != std::string::npos);
    CHECK_FALSE(choice.seconds.empty());
  }
  REQUIRE(lines.size() >= 2);
  CHECK_THAT(lines[0],
             REWIRE_CATCH_CONTAINS("is struck: two runs on the same numbers do not give the same bits"));
  CHECK_THAT(lines.back(), REWIRE_CATCH_CONTAINS("no other is left"));
}

TEST_CASE("As many candidates are timed as a developer says") {
  const Clean clean;
  const test::TemporaryFolder folder;
  const ir::Module module = example();
  for (const int candidates : {1, 2, 3}) {
    CAPTURE(candidates);
    TunerOptions few = options(folder.file(fmt::format("cache{}", candidates)));
    few.given.add(parse_tune(fmt::format("candidates={}", candidates), "--tune"));
    Tuner tuner(few);
    const ChoiceRecord record = choose(module, tuner);
    REQUIRE(record.made().size() == 3);
    CHECK(record.made()[0].key == "tune candidates");
    CHECK(tuner.timed() == (candidates == 1 ? 0 : 2));
    for (const MadeChoice& choice : record.made())
      CHECK(choice.seconds.size() <= static_cast<std::size_t>(candidates));
    if (candidates == 1) CHECK(record.made()[1].by == kByModel);
  }
}

TEST_CASE("A profile names a product's sizes, types, layout and algorithm") {
  const Clean clean;
  const test::TemporaryFolder folder;
  const ir::Module module = example();
  TunerOptions untimed = options(folder.file("cache"));
  untimed.time = false;
  Tuner tuner(untimed);
  CudaEngineOptions engine_options;
  engine_options.choices = all_by(choose(module, tuner), 1);
  const auto engine = make_cuda_engine(module, engine_options);
  const std::vector<LaunchTime> times = engine->profile("one", inputs(), 1);
  const auto row = std::ranges::find(times,
                                     "gemm 9x37x37 f32 a=37,1@64 b=37,1@64 c=37,1@64, algorithm 2, tile 0, "
                                     "stages 0, split 2, swizzle 0, option 0",
                                     &LaunchTime::name);
  REQUIRE(row != times.end());
  CHECK(row->launches == 2);
}

TEST_CASE("An algorithm that is refused here, recorded or cached, is chosen anew") {
  const Clean clean;
  const test::TemporaryFolder folder;
  const ir::Module module = example();
  Tuner first(options(folder.file("cache")));
  const ChoiceRecord record = choose(module, first);
  const auto elsewhere = [](std::string& answer) { answer.replace(answer.find("12.99"), 5, "11.88"); };
  const auto unknown = [](std::string& answer) {
    const std::size_t from = answer.rfind(": ") + 2;
    answer.replace(from, answer.find('-', from) - from, "63");
  };
  for (const ChoiceRecord& refused : {edited(record, elsewhere), edited(record, unknown)}) {
    TunerOptions given = options(folder.file("cache"));
    given.given = refused;
    Tuner again(given);
    CHECK(answers(choose(module, again)) == answers(record));  // the cache's
    CHECK(again.timed() == 0);
    CHECK(again.refused() == 2);
    // An engine that is given no better goes on with the library's first.
    CHECK(same_bits(results(module, refused), results(module, {})));

    const ChoiceCache cache(folder.file("refused"), "here");
    for (const MadeChoice& choice : refused.made()) CHECK(cache.store(choice));
    Tuner timing(options(folder.file("refused")));
    choose(module, timing);
    CHECK(timing.timed() == 2);
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder.file("cache"))) {
    std::ofstream(entry.path()) << "{\"place\":";
  }
  Tuner after(options(folder.file("cache")));
  choose(module, after);
  CHECK(after.timed() == 2);
}

TEST_CASE("What there is no time for takes the heuristic's first, from then on") {
  const Clean clean;
  const test::TemporaryFolder folder;
  const ir::Module module = example();
  Tuner hurried(options(folder.file("cache"), kGemmSeconds / 5));
  const ChoiceRecord record = choose(module, hurried);
  CHECK(hurried.out_of_time() == 2);
  REQUIRE(record.made().size() == 2);
  for (const MadeChoice& choice : record.made()) {
    CHECK(choice.by == kByModel);
    CHECK(choice.taken.find("algorithm 1,") != std::string::npos);
  }
  Tuner later(options(folder.file("cache")));
  CHECK(choose(module, later) == record);
  CHECK(later.timed() == 0);
}

}  // namespace
}  // namespace rewire::runtime
