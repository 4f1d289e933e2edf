// Schedules of kernels, chosen on the fake libraries: each kernel is timed once, what is recorded is what the
// engine compiles, and to the same bits; what is refused is chosen anew, what there was no time for is asked
// again, and nothing is left on the device.
#include "runtime/exec/cuda/tune/tile_choices.h"

#include <algorithm>
#include <memory>

#include "codegen/cuda/emit.h"
#include "ir/builder.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/verify.h"
#include "runtime/exec/cuda/engine.h"
#include "runtime/exec/cuda/kernels.h"
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

constexpr std::int64_t kRows = 70, kWidth = 150;

/// Two programs that share a kernel: rows to softmax. The first also updates three weights alike, as a table.
ir::Module example() {
  ir::Module module;
  module.name = "example";
  for (const char* name : {"u", "v", "w"}) {
    ir::Parameter parameter;
    parameter.name = name;
    parameter.type = {DType::f32, {kWidth}};
    module.add_parameter(parameter);
  }
  for (const bool updates : {true, false}) {
    ir::Function& function = module.functions.emplace_back();
    function.name = updates ? "one" : "two";
    ir::Builder b(module, function);
    const Value x = b.argument("x", {DType::f32, {kRows, kWidth}});
    const Value e = b.unary(Opcode::exp, x);
    b.result("y", b.div(e, b.sum(e, {1})));
    for (const char* name : {"u", "v", "w"}) {
      if (!updates) continue;
      const Value grown[] = {b.mul(b.param(name), 1.5)};
      b.emit_all(Opcode::update, grown, {{"name", std::string(name)}});
    }
  }
  ir::verify(module);
  return module;
}

TunerOptions options(const std::string& folder, double seconds_a_look = 0) {
  return timing_in(
      folder,
      [folder](const ir::Module& module, const std::vector<std::string>& functions, Tuner& tuner) {
        DevicePrograms programs(module, functions);
        choose_schedules(programs, {folder, 1}, tuner);
      },
      seconds_a_look);
}

ChoiceRecord choose(Tuner& tuner) {
  ir::Module asked = example();
  make_choices(asked, {"one", "two"}, tuner);
  return tuner.record();
}

TensorMap run(const ChoiceRecord& choices, const std::string& folder = "") {
  CudaEngineOptions engine_options;
  engine_options.choices = choices;
  engine_options.compiling.cache_directory = folder;
  const auto engine = make_cuda_engine(example(), engine_options);
  for (const char* name : {"u", "v", "w"}) engine->write_state(name, testing::noise({kWidth}, 3));
  TensorMap inputs;
  inputs.emplace("x", testing::noise({kRows, kWidth}, 1));
  TensorMap results = engine->run("one", inputs);
  results.emplace("state", engine->read_state("v"));
  return results;
}

/// Every kernel by the cost model's candidate of this place.
ChoiceRecord all_by(std::size_t rank) {
  const DevicePrograms device(example(), {"one", "two"});
  const codegen::cuda::DeviceTarget target = target_of(device.context.facts());
  ChoiceRecord made;
  for (const codegen::Program& program : device.programs) {
    for (const codegen::Launch& launch : program.launches) {
      const auto& kernel = std::get<codegen::KernelLaunch>(launch);
      const auto schedules = codegen::cuda::schedules(kernel.kernel, target, rank + 1);
      REQUIRE(schedules.size() == rank + 1);
      made.add({schedule_key(kernel, target),
                codegen::cuda::schedule_text(schedules[rank]),
                std::string(kByTiming),
                {}});
    }
  }
  return made;
}

TEST_CASE("Each kernel of all programs is timed once, and the answer stands in the record and in the cache") {
  const Clean clean;
  const test::TemporaryFolder folder;
  Tuner first(options(folder.file("cache")));
  const ChoiceRecord record = choose(first);
  REQUIRE(record.made().size() == 2);  // the rows of both programs, and the table
  CHECK(first.timed() == 2);
  CHECK(record.made()[0].key.starts_with("tile sm_90 rows 70 lanes 150 "));
  CHECK(record.made()[1].key.find(" members 3 ") != std::string::npos);
  for (const MadeChoice& choice : record.made()) {
    CAPTURE(choice.key, choice.taken);
    CHECK(choice.by == kByTiming);
    CHECK(codegen::cuda::parse_schedule(choice.taken));
    CHECK(choice.seconds.size() <= 6);
    for (const auto& [schedule, seconds] : choice.seconds) {
      CHECK(codegen::cuda::parse_schedule(schedule));
      CHECK(seconds > 0);
      CHECK(seconds < 10);
    }
  }
  // What is computed in place while it is timed (a weight times 1.5, again and again) stays a number.
  const TensorMap results = run(record, folder.file("cache"));
  CHECK(fake().calls("nvrtcCompileProgram") > 2);

  fake().reset();
  Tuner second(options(folder.file("cache")));
  CHECK(answers(choose(second)) == answers(record));
  CHECK(second.timed() == 0);
  CHECK(fake().calls("cuLaunchKernel") == 0);
  CHECK(same_bits(run(record, folder.file("cache")), results));
  CHECK(fake().calls("nvrtcCompileProgram") == 0);  // not even the engine: the candidates are kept
}

TEST_CASE("A recorded schedule is what the engine compiles, and a tuner that is given it times nothing") {
  const Clean clean;
  const test::TemporaryFolder folder;
  const ChoiceRecord model = all_by(0), other = all_by(2);
  const TensorMap expected = run({});
  CHECK(same_bits(run(model), expected));
  const TensorMap results = run(other, folder.file("cache"));
  CHECK(testing::scaled_error(to_double(expected.at("y")), to_double(results.at("y")), 0) <= 1e-6);
  CHECK(same_bits(run(other), results));
  // Other schedules are other texts to the cache of machine code.
  fake().reset();
  run(model, folder.file("cache"));
  CHECK(fake().calls("nvrtcCompileProgram") == 2);
  fake().reset();
  TunerOptions given = options(folder.file("empty"));
  given.given = other;
  Tuner replay(given);
  CHECK(answers(choose(replay)) == answers(other));
  CHECK(replay.timed() == 0);
  CHECK(fake().calls("cuLaunchKernel") == 0);
}

TEST_CASE("Without the clock nothing is compiled or launched, and the model's answers stand in the record") {
  const Clean clean;
  const test::TemporaryFolder folder;
  TunerOptions untimed = options(folder.file("cache"));
  untimed.time = false;
  Tuner tuner(untimed);
  const ChoiceRecord record = choose(tuner);
  CHECK(record.made().size() == 2);
  for (const MadeChoice& choice : record.made()) CHECK(choice.by == kByModel);
  CHECK(fake().calls("nvrtcCompileProgram") == 0);
  CHECK(fake().calls("cuLaunchKernel") == 0);
  CHECK(same_bits(run(record), run({})));
}

TEST_CASE("A schedule that does not fit here, recorded or cached, is chosen anew") {
  const Clean clean;
  const test::TemporaryFolder folder;
  Tuner first(options(folder.file("cache")));
  const ChoiceRecord record = choose(first);
  ChoiceRecord refused;
  for (MadeChoice choice : record.made()) {
    choice.taken = "block: threads 64, resident 1";
    refused.add(std::move(choice));
  }
  TunerOptions given = options(folder.file("cache"));
  given.given = refused;
  Tuner again(given);
  CHECK(answers(choose(again)) == answers(record));  // the cache's
  CHECK(again.refused() == 2);
  CHECK(again.timed() == 0);
  // An engine that is given no better goes on with the model's.
  CHECK(same_bits(run(refused), run({})));

  const ChoiceCache cache(folder.file("refused"), "here");
  for (const MadeChoice& choice : refused.made()) CHECK(cache.store(choice));
  Tuner timing(options(folder.file("refused")));
  choose(timing);
  CHECK(timing.timed() == 2);
}

TEST_CASE("What there is no time for takes the model's, and is asked again by the next command") {
  const Clean clean;
  const test::TemporaryFolder folder;
  Tuner hurried(options(folder.file("cache"), kTileSeconds));
  const ChoiceRecord record = choose(hurried);
  CHECK(hurried.out_of_time() == 2);
  REQUIRE(record.made().size() == 2);
  for (const MadeChoice& choice : record.made()) CHECK(choice.by == kByModel);
  TunerOptions given = options(folder.file("cache"));
  given.given = record;
  Tuner resumed(given);  // the run that goes on
  CHECK(choose(resumed) == record);
  CHECK(resumed.timed() == 0);
  Tuner later(options(folder.file("cache")));
  choose(later);
  CHECK(later.timed() == 2);
}

TEST_CASE("A call that fails while kernels are timed is named, and leaves nothing behind") {
  const Clean clean;
  for (const auto& [call, words] : {std::pair("cuMemAlloc_v2", "cuMemAlloc of "),
                                    std::pair("cuGraphLaunch", "cuGraphLaunch to time kernels"),
                                    std::pair("cuModuleLoadData", "cuModuleLoadData of '")}) {
    CAPTURE(call);
    const test::TemporaryFolder folder;
    Tuner tuner(options(folder.file("cache")));
    fake().reset();
    fake().fail(call, 1, 719);
    CHECK_THAT(test::message_of<RuntimeFailure>([&] { choose(tuner); }), REWIRE_CATCH_CONTAINS(words));
  }
  fake().fail("", 0, 0);
}

}  // namespace
}  // namespace rewire::runtime
