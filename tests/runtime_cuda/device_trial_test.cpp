// A program made only to be timed, on the fake libraries: it takes nothing of the host's memory, gives all
// back, and says what failed.
#include "runtime/exec/cuda/device_trial.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/verify.h"
#include "runtime/exec/cuda/device_timing.h"
#include "runtime/io/host_tensor.h"
#include "tests/runtime_cuda/fake_run.h"
#include "tests/runtime_cuda/timing_here.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

using ir::DType;
using ir::Opcode;
using ir::Value;

/// A product, rows by index, a table of updates: each way in which a launch takes its memory.
ir::Module example() {
  ir::Module module;
  module.name = "example";
  for (const char* name : {"u", "v", "w"}) {
    ir::Parameter parameter;
    parameter.name = name;
    parameter.type = {DType::f32, {9, 9}};
    module.add_parameter(parameter);
  }
  ir::Function& function = module.functions.emplace_back();
  function.name = "trial";
  ir::Builder b(module, function);
  const Value x = b.argument("x", {DType::f32, {5, 9}});
  const Value rows = b.argument("rows", {DType::i32, {5}});
  const Value picked = b.emit(Opcode::gather, {b.param("u"), rows}, {{"axis", std::int64_t{0}}});
  b.result("y", b.matmul(b.add(x, picked), b.param("w")));
  for (const char* name : {"u", "v", "w"}) {
    const Value grown[] = {b.mul(b.param(name), 1.5)};
    b.emit_all(Opcode::update, grown, {{"name", std::string(name)}});
  }
  ir::verify(module);
  return module;
}

TEST_CASE("a trial runs on the device alone, again and again") {
  const Clean clean;
  const Trial trial = device_trial(example(), {});
  CHECK(fake().calls("cublasLtMatmul") > 0);
  for (int round = 0; round < 3; ++round) CHECK(trial.run() >= 0);
  CHECK(fake().calls("cuGraphLaunch") == 3);
  CHECK(fake().calls("cuMemHostAlloc") == 0);
  CHECK(fake().calls("cuMemcpyDtoHAsync_v2") == 0);
}

TEST_CASE("two runs of a trial are compared bit by bit, from the same weights") {
  const Clean clean;
  const Trial trial = device_trial(example(), {});
  CHECK(trial.repeats());
  fake().refuse("unsteady");
  CHECK_FALSE(trial.repeats());
  fake().reset();
  CHECK(trial.repeats());
}

TEST_CASE("timed memory holds random numbers up to its last byte, the same every time") {
  const Clean clean;
  const cuda::Context context;
  const cuda::Stream stream;
  const auto filled = [&](DType dtype, std::int64_t elements) {
    HostTensor numbers({dtype, {elements}});
    const std::int64_t bytes = numbers.type().bytes();
    const cuda::DeviceMemory memory(bytes, "a test");
    fill_at_random(stream, memory.address(), bytes, dtype, "of a test");
    stream.copy_out(numbers.bytes().data(), memory.address(), bytes, "of a test");
    stream.synchronise("of a test");
    return to_double(numbers).data;
  };
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    for (const std::int64_t elements : {1, 1000, 65521, 65522, 300001}) {
      CAPTURE(ir::dtype_name(dtype), elements);
      const std::vector<double> values = filled(dtype, elements);
      CHECK(std::ranges::all_of(values, [](double value) { return value >= -1 && value <= 1; }));
      const double sum = std::accumulate(values.begin(), values.end(), 0.0);
      CHECK(std::abs(sum) <
            4 * std::sqrt(static_cast<double>(elements)) + 1 + 0.02 * static_cast<double>(elements));
      const std::set<double> different(values.begin(), values.end());
      CHECK(different.size() > static_cast<std::size_t>(std::min<std::int64_t>(elements, 400)) / 2);
      CHECK(values.back() == values[values.size() > 65521 ? (values.size() - 1) % 65521 : values.size() - 1]);
      CHECK(values == filled(dtype, elements));
    }
  }
  const std::vector<double> whole = filled(DType::i32, 77);
  CHECK(std::ranges::count(whole, 0.0) == 77);
}

TEST_CASE("a trial that finds no memory says what for, and leaves none behind") {
  const NothingLost lost;
  fake().fail("cuMemAlloc_v2", 1, 2);
  const std::string message = test::message_of<RuntimeFailure>([] { device_trial(example(), {}); });
  CHECK_THAT(message, REWIRE_CATCH_CONTAINS("out of device memory: "));
  CHECK_THAT(message, REWIRE_CATCH_CONTAINS("trial"));
}

TEST_CASE("candidates that find no memory together are left to the cost model, and asked again") {
  const NothingLost lost;
  const test::TemporaryFolder folder;
  const ir::Choice question{
      "a choice of a test", {"one", "other"}, [](const std::string&) { return example(); }};
  const auto choose = [&] {
    TunerOptions options = timing_in(folder.file("cache"), {});
    options.make_trial = device_trial;
    Tuner tuner(options);
    tuner.choose(question);
    return tuner.record().made().at(0);
  };
  for (const long allocation : {1, 5, 9}) {
    CAPTURE(allocation);
    fake().fail("cuMemAlloc_v2", allocation, 2);
    const MadeChoice refused = choose();
    CHECK(refused.taken == "one");
    CHECK(refused.by == kByModel);
  }
  fake().fail("", 0, 0);
  CHECK(choose().by == kByTiming);
}

}  // namespace
}  // namespace rewire::runtime
