// The engine on a GPU, on the fake libraries, against the evaluator: runs in order, one graph a function,
// state on the device, errors of every call, nothing left behind.
#include "runtime/exec/cuda/engine.h"

#include <algorithm>
#include <functional>
#include <set>
#include <sstream>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/philox.h"
#include "ir/verify.h"
#include "tests/runtime_cuda/fake_run.h"
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

/// y = softmax over lanes of x + weight, sum = its column sums; weight += sum / rows if `ok`; `count` goes
/// up.
void add_step(ir::Module& module, const std::string& name, std::int64_t rows) {
  ir::Function& function = module.functions.emplace_back();
  function.name = name;
  ir::Builder b(module, function);
  const Value x = b.argument("x", {DType::f32, {rows, 20}});
  const Value ok = b.argument("ok", {DType::i1, {}});
  const Value weight = b.param("weight"), count = b.param("count");
  const Value e = b.unary(Opcode::exp, b.add(x, weight));
  const Value y = b.div(e, b.sum(e, {1}));
  const Value sum = b.reshape(b.sum(b.mul(y, y), {0}), {20});
  const Value updates[] = {b.add(weight, b.div(sum, static_cast<double>(rows))), ok};
  b.emit_all(Opcode::update, updates, {{"name", std::string("weight")}});
  b.emit(Opcode::update, {b.add(count, 1)}, {{"name", std::string("count")}});
  b.result("y", y);
  b.result("sum", sum);
  b.result("count", count);
}

/// An op of the host in the middle, and a call without inputs.
ir::Module example() {
  ir::Module module;
  module.name = "example";
  ir::Parameter weight;
  weight.name = "weight";
  weight.type = {DType::f32, {20}};
  module.add_parameter(weight);
  ir::Parameter count;
  count.name = "count";
  count.type = {DType::i64, {}};
  count.trainable = false;
  module.add_parameter(count);
  add_step(module, "small", 17);
  add_step(module, "large", 301);

  ir::Function& sorted = module.functions.emplace_back();
  sorted.name = "sorted";
  ir::Builder b(module, sorted);
  const Value twice = b.reshape(b.mul(b.param("weight"), 2), {1, 20});
  const Value long_row = b.reshape(b.broadcast(twice, {205, 20}), {4100});  // than a kernel sorts
  const Value x = b.emit_all(Opcode::sort, std::array{long_row}, {{"axis", std::int64_t{0}}})[0];
  b.result("doubled", b.add(x, x));
  ir::verify(module);
  return module;
}

TensorMap inputs_of(std::int64_t rows, std::uint64_t seed, bool ok = true) {
  TensorMap inputs;
  inputs.emplace("x", testing::noise({rows, 20}, seed));
  HostTensor flag({DType::i1, {}});
  flag.as<std::uint8_t>()[0] = ok ? 1 : 0;
  inputs.emplace("ok", std::move(flag));
  return inputs;
}

void check_equal(const TensorMap& expected, const TensorMap& actual) {
  REQUIRE(expected.size() == actual.size());
  for (const auto& [name, tensor] : expected) {
    INFO(name);
    REQUIRE(actual.at(name).type() == tensor.type());
    CHECK(testing::scaled_error(to_double(tensor), to_double(actual.at(name)), 0) <= 1e-5);
  }
}

std::vector<std::string> lines(const char* text) {
  std::istringstream stream(text);
  std::vector<std::string> list;
  for (std::string line; std::getline(stream, line);) list.push_back(line);
  return list;
}

/// Some runs of all functions, each result as it comes.
std::vector<TensorMap> all_runs(Engine& engine) {
  engine.write_state("weight", testing::noise({20}, 99));
  std::vector<TensorMap> results;
  for (std::uint64_t run = 0; run < 3; ++run) {
    results.push_back(engine.run("small", inputs_of(17, run, run != 1)));
    results.push_back(engine.run("large", inputs_of(301, run)));  // the arena grows
    results.push_back(engine.run("sorted", {}));
  }
  TensorMap state;
  for (const char* name : {"weight", "count"}) state.emplace(name, engine.read_state(name));
  results.push_back(std::move(state));
  return results;
}

TEST_CASE("programs over one state agree with the evaluator, in any order of what may happen at once") {
  const ir::Module module = example();
  const std::vector<TensorMap> expected = all_runs(*make_evaluator_engine(module));
  std::vector<TensorMap> first;
  for (const unsigned long order : {0UL, 1UL, 2UL, 3UL}) {
    for (const bool check_memory : {false, true}) {
      CAPTURE(order, check_memory);
      const Clean clean;
      fake().order(order);
      CudaEngineOptions options;
      options.check_memory = check_memory;
      const std::vector<TensorMap> actual = all_runs(*make_cuda_engine(module, options));
      for (std::size_t i = 0; i < expected.size(); ++i) check_equal(expected[i], actual[i]);
      if (first.empty()) {
        for (const TensorMap& results : actual) {
          TensorMap copy;
          for (const auto& [name, tensor] : results) copy.emplace(name, tensor.clone());
          first.push_back(std::move(copy));
        }
      }
      for (std::size_t i = 0; i < first.size(); ++i) CHECK(same_bits(first[i], actual[i]));
    }
  }
}

TEST_CASE("runs that nobody has waited for give what they would have given one by one") {
  const ir::Module module = example();
  const auto evaluator = make_evaluator_engine(module);
  for (const unsigned long order : {0UL, 1UL, 2UL, 3UL, 4UL}) {
    CAPTURE(order);
    const Clean clean;
    fake().order(order);
    const auto engine = make_cuda_engine(module);
    evaluator->write_state("weight", testing::noise({20}, 5));
    evaluator->write_state("count", HostTensor({DType::i64, {}}));
    engine->write_state("weight", testing::noise({20}, 5));
    std::vector<TensorMap> expected;
    std::vector<Engine::Ticket> tickets;
    for (std::uint64_t run = 0; run < 6; ++run) {
      TensorMap inputs = inputs_of(17, run, run != 3);
      expected.push_back(evaluator->run("small", inputs));
      tickets.push_back(engine->submit("small", inputs));
      std::ranges::fill(inputs.at("x").bytes(), std::byte{0xFF});  // they are the caller's again
    }
    for (const std::size_t run : {2U, 0U, 5U, 1U, 4U, 3U}) {
      check_equal(expected[run], engine->results(tickets[run]));
    }
    CHECK_THROWS_AS(engine->results(tickets[0]), InternalError);
    // And with results that are never read.
    engine->submit("small", inputs_of(17, 1));
  }
}

TEST_CASE("a run on the inputs of the one before copies none of them, whatever ran in between") {
  const ir::Module module = example();
  for (const bool check_memory : {false, true}) {
    const Clean clean;
    CudaEngineOptions options;
    options.check_memory = check_memory;
    const auto engine = make_cuda_engine(module, options), fed = make_cuda_engine(module, options);
    const TensorMap inputs = inputs_of(17, 1);
    for (const auto& each : {engine.get(), fed.get()}) each->write_state("weight", testing::noise({20}, 5));
    std::vector<TensorMap> expected;
    for (int run = 0; run < 3; ++run) {
      expected.push_back(fed->run("small", inputs));
      fed->run("large", inputs_of(301, 2));
    }
    fake().reset();
    long copied = 0;
    for (int run = 0; run < 3; ++run) {
      CHECK(same_bits(
          expected[static_cast<std::size_t>(run)],
          engine->results(engine->submit_again("small", inputs))));  // the first time it is given them
      const long now = fake().calls("cuMemcpyHtoDAsync_v2");
      if (run > 0) CHECK(now == copied + 1);  // of "large"
      copied = now;
      engine->results(engine->submit("large", inputs_of(301, 2)));
    }
  }
}

TEST_CASE("an input of several megabytes, which threads share in copying, arrives whole") {
  constexpr std::int64_t kElements = (std::int64_t{5} << 18) + 77;  // f32: 5 MiB and a little
  ir::Module module;
  ir::Function& function = module.functions.emplace_back();
  function.name = "main";
  ir::Builder b(module, function);
  b.result("y", b.add(b.argument("x", {DType::f32, {kElements}}), 1));
  ir::verify(module);
  const Clean clean;
  const auto engine = make_cuda_engine(module);
  for (std::uint64_t run = 0; run < 3; ++run) {
    TensorMap inputs;
    inputs.emplace("x", testing::noise({kElements}, run));
    const HostTensor expected = inputs.at("x").clone();
    const Engine::Ticket ticket = engine->submit("main", inputs);
    std::ranges::fill(inputs.at("x").bytes(), std::byte{0xFF});
    const TensorMap results = engine->results(ticket);
    const auto x = expected.as<float>(), y = results.at("y").as<float>();
    CHECK(std::ranges::equal(x, y, [](float a, float c) { return a + 1 == c; }));
  }
}

TEST_CASE("a function is captured once, and each run replays its launches in their order") {
  const Clean clean;
  const ir::Module module = example();
  const auto engine = make_cuda_engine(module);
  engine->prepare("large");
  engine->prepare("small");
  CHECK(fake().calls("cuGraphLaunch") == 0);
  for (std::uint64_t run = 0; run < 3; ++run) {
    engine->run("small", inputs_of(17, run));
    engine->run("large", inputs_of(301, run));
  }
  CHECK(fake().calls("cuStreamBeginCapture_v2") == 2);
  CHECK(fake().calls("cuGraphInstantiateWithFlags") == 2);
  CHECK(fake().calls("cuGraphLaunch") == 6);
  const long launches = fake().calls("cuLaunchKernel");
  engine->run("small", inputs_of(17, 9));
  CHECK(fake().calls("cuLaunchKernel") == launches);
  // Seven runs of two functions that are alike but for their rows.
  const std::vector<std::string> trace = lines(fake().trace());
  std::vector<std::string> kernels;
  for (const std::string& line : trace) {
    if (line.find("copy") == std::string::npos && line.find("set") == std::string::npos)
      kernels.push_back(line);
  }
  const std::size_t each = kernels.size() / 7;
  REQUIRE(each * 7 == kernels.size());
  REQUIRE(each > 0);
  for (std::size_t i = 0; i < each; ++i) CHECK(kernels[6 * each + i] == kernels[i]);
}

/// Weights that all move by the squares of their own input: "small" and "large" differ by its rows.
ir::Module many_weights(int weights) {
  ir::Module module;
  module.name = "many";
  for (int i = 0; i < weights; ++i) {
    ir::Parameter weight;
    weight.name = "weight" + std::to_string(i);
    weight.type = {DType::f32, {20}};
    module.add_parameter(weight);
  }
  for (const auto& [name, rows] : {std::pair{"small", 700}, std::pair{"large", 1500}}) {
    ir::Function& function = module.functions.emplace_back();
    function.name = name;
    ir::Builder b(module, function);
    for (int i = 0; i < weights; ++i) {
      const std::string number = std::to_string(i);
      const Value x = b.argument("x" + number, {DType::f32, {rows, 20}});
      const Value weight = b.param("weight" + number);
      const Value sum = b.reshape(b.sum(b.mul(x, x), {0}), {20});
      b.emit(Opcode::update, {b.sub(weight, b.mul(sum, 1e-3))}, {{"name", "weight" + number}});
    }
  }
  ir::verify(module);
  return module;
}

TEST_CASE("kernels over many weights are one launch each, also where the arena has moved") {
  constexpr int kWeights = 5;
  const ir::Module module = many_weights(kWeights);
  const auto inputs = [](std::int64_t rows, std::uint64_t seed) {
    TensorMap map;
    for (std::uint64_t i = 0; i < kWeights; ++i)
      map.emplace("x" + std::to_string(i), testing::noise({rows, 20}, 10 * seed + i));
    return map;
  };
  const auto state = [&](Engine& engine) {
    for (std::uint64_t run = 0; run < 2; ++run) {
      engine.run("small", inputs(700, run));
      engine.run("large", inputs(1500, run + 2));  // the arena grows
    }
    TensorMap map;
    for (const ir::Parameter& weight : module.parameters)
      map.emplace(weight.name, engine.read_state(weight.name));
    return map;
  };
  const TensorMap expected = state(*make_evaluator_engine(module));
  for (const unsigned long order : {0UL, 1UL, 2UL}) {
    CAPTURE(order);
    const Clean clean;
    fake().order(order);
    CudaEngineOptions options;
    options.check_memory = order > 0;
    const auto engine = make_cuda_engine(module, options);
    check_equal(expected, state(*engine));
    CHECK(fake().calls("cuStreamBeginCapture_v2") == 3);  // "small" twice, "large" once
    // Sums of parts, their sum, the update, or fewer.
    CHECK(fake().calls("cuLaunchKernel") <= 3 * 3);
    for (const LaunchTime& time : engine->profile("small", inputs(700, 1), 1)) {
      CAPTURE(time.name);
      CHECK(time.launches == 1);
      CHECK(time.name.ends_with(", a table of 5"));
    }
  }
}

TEST_CASE(
    "what a CPU's library computes, the host does by the same library: to the bits of the engine of the "
    "CPU") {
  ir::Module module;
  module.name = "decompositions";
  ir::Function& main = module.functions.emplace_back();
  main.name = "main";
  ir::Builder b(module, main);
  const Value x = b.argument("x", {DType::f32, {3, 33, 33}});
  for (const Opcode code : {Opcode::qr, Opcode::eigh})
    b.result(std::string(ir::opcode_name(code)), b.emit(code, {x}));
  const Value maps = b.reshape(x, {1, 3, 33, 33}), weight = b.argument("w", {DType::f32, {5, 3, 3, 3}});
  const ir::Attributes plain{{"strides", ir::Ints{1, 1}}, {"padding", ir::Ints{1, 1}}};
  b.result("maps", b.emit(Opcode::conv2d, {maps, weight}, plain));
  ir::verify(module);
  TensorMap inputs;
  inputs.emplace("x", testing::noise({3, 33, 33}, 5));
  inputs.emplace("w", testing::noise({5, 3, 3, 3}, 6));
  const Clean clean;
  JitEngineOptions one_thread;
  one_thread.threads = 1;
  const TensorMap expected = make_jit_engine(module, one_thread)->run("main", inputs);
  const TensorMap actual = make_cuda_engine(module)->run("main", inputs);
  for (const char* name : {"qr", "eigh"}) {
    CAPTURE(name);
    CHECK(std::ranges::equal(expected.find(name)->second.bytes(), actual.find(name)->second.bytes()));
  }
  check_equal(make_evaluator_engine(module)->run("main", inputs), actual);
}

TEST_CASE("a profile names every launch of a function, and moves its state on as runs do") {
  const Clean clean;
  const ir::Module module = example();
  const auto engine = make_cuda_engine(module), other = make_cuda_engine(module);
  for (const auto& each : {engine.get(), other.get()}) each->write_state("weight", testing::noise({20}, 5));
  const std::vector<LaunchTime> times = engine->profile("small", inputs_of(17, 1), 2);
  REQUIRE_FALSE(times.empty());
  for (const LaunchTime& time : times) {
    CAPTURE(time.name);
    CHECK_FALSE(time.name.empty());
    CHECK(time.launches > 0);
    CHECK(time.seconds > 0);
    CHECK(time.seconds < 60);
    CHECK(time.bytes > 0);
  }
  for (int run = 0; run < 2; ++run) other->run("small", inputs_of(17, 1));
  for (const char* state : {"weight", "count"})
    CHECK(std::ranges::equal(engine->read_state(state).bytes(), other->read_state(state).bytes()));
  CHECK(engine->report().device_bytes >= engine->report().arena_bytes + engine->report().state_bytes);
}

TEST_CASE("kernels of one structure are compiled once, and not again by another engine with the cache") {
  const test::TemporaryFolder folder;
  const ir::Module module = example();
  CudaEngineOptions options;
  options.compiling.cache_directory = (folder.path() / "rewire").string();
  std::vector<TensorMap> first;
  for (int run = 0; run < 2; ++run) {
    const Clean clean;
    const auto engine = make_cuda_engine(module, options);
    std::vector<TensorMap> results = all_runs(*engine);
    const EngineReport report = engine->report();
    CHECK(report.kernels > report.unique_kernels / 2);
    CHECK(report.cache_hits == (run == 0 ? 0 : report.unique_kernels));
    CHECK(fake().calls("nvrtcCompileProgram") == (run == 0 ? report.unique_kernels : 0));
    CHECK(report.state_bytes == 512);
    CHECK(report.arena_bytes > 0);
    if (run == 0)
      first = std::move(results);
    else
      for (std::size_t i = 0; i < first.size(); ++i) CHECK(same_bits(first[i], results[i]));
  }
}

/// The calls made so far, and how often.
std::map<std::string, long> calls_so_far() {
  std::map<std::string, long> counts;
  for (const std::string& call : lines(fake().called())) counts[call] = fake().calls(call.c_str());
  return counts;
}

/// Its failure is logged: a destructor cannot throw.
bool gives_something_back(const std::string& call) {
  return std::ranges::any_of(std::array{"Destroy", "Free", "Unload", "Release"},
                             [&](const char* word) { return call.find(word) != std::string::npos; });
}

/// Everything that an engine does; `before_end` is called while it still lives.
void whole_life(const ir::Module& module, const std::function<void()>& before_end) {
  const auto engine = make_cuda_engine(module);
  engine->write_state("weight", testing::noise({20}, 1));
  for (std::uint64_t run = 0; run < 3; ++run) engine->run("small", inputs_of(17, run));
  engine->run("large", inputs_of(301, 1));
  engine->run("sorted", {});
  engine->run("small", inputs_of(17, 1));
  const Engine::Ticket ticket = engine->submit("small", inputs_of(17, 1));
  engine->finished(ticket);
  engine->results(ticket);
  engine->read_state("weight");
  before_end();
}

/// What it throws if the `nth` call of `call` fails; "": nothing.
std::string message_when_failing(const ir::Module& module, const std::string& call, long nth) {
  fake().reset();
  fake().fail(call.c_str(), nth, 999);
  try {
    whole_life(module, [] {});
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

TEST_CASE(
    "an error of any call names the call and leaves nothing allocated; one of giving back is no failure") {
  const Clean clean;
  const ir::Module module = example();
  std::map<std::string, long> alive;
  whole_life(module, [&] { alive = calls_so_far(); });
  const std::map<std::string, long> all = calls_so_far();
  CHECK(all.size() > 35);
  for (const auto& [call, count] : all) {
    if (call == "cuInit") continue;  // once a process
    const bool gives_back = gives_something_back(call);
    const long most = gives_back ? count : alive.at(call);
    for (const long nth : std::set<long>{1, 2, (most + 1) / 2, most}) {
      if (nth > most) continue;
      CAPTURE(call, nth);
      const std::string message = message_when_failing(module, call, nth);
      std::string name = call.starts_with("nvrtc") ? "NVRTC" : call;  // whose wrapper says what it was doing
      if (name.ends_with("_v2")) name.resize(name.size() - 3);
      CHECK(message.empty() == gives_back);
      if (!gives_back) CHECK_THAT(message, REWIRE_CATCH_CONTAINS(name));
      CHECK(message.find('\n') == std::string::npos);
      CHECK(std::string(fake().live()).empty());
      CHECK(std::string(fake().faults()).empty());
    }
  }
  fake().reset();
}

TEST_CASE("wrong names and types are refused as by the other engines") {
  const Clean clean;
  const auto engine = make_cuda_engine(example());
  using test::message_of;
  CHECK_THAT(message_of<UserError>([&] { engine->run("smal", {}); }),
             REWIRE_CATCH_CONTAINS("did you mean 'small'?"));
  CHECK_THAT(message_of<UserError>([&] { engine->run("small", inputs_of(8, 1)); }),
             REWIRE_CATCH_CONTAINS("input 'x' of function 'small' is f32[17,20], not f32[8,20]"));
  CHECK_THAT(message_of<UserError>([&] { engine->write_state("weight", testing::noise({21}, 1)); }),
             REWIRE_CATCH_CONTAINS("parameter 'weight' is f32[20], not f32[21]"));
}

}  // namespace
}  // namespace rewire::runtime
