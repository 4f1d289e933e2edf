// Whole programs on the engine for a GPU, on the fake libraries, against the evaluator: random ones, and a
// vision transformer's training steps.
#include <algorithm>

#include "ir/philox.h"
#include "models/model.h"
#include "programs/programs.h"
#include "runtime/exec/cuda/engine.h"
#include "runtime/network/initialise.h"
#include "tests/runtime_cuda/fake_run.h"
#include "tests/support/accuracy.h"
#include "tests/support/catch.h"
#include "tests/support/host_noise.h"
#include "tests/support/program_fuzz.h"

namespace rewire::runtime {
namespace {

using Bits = std::map<std::string, std::vector<std::byte>>;

std::unique_ptr<JitEngine> checked_engine(const ir::Module& module) {
  fake();
  CudaEngineOptions options;
  options.check_memory = true;
  return make_cuda_engine(module, options);
}

TEST_CASE("random programs agree with the evaluator") {
  const Clean clean;
  std::vector<testing::FuzzCase> cases;
  for (std::uint64_t seed = 41; seed < 49; ++seed) cases.push_back(testing::fuzz_case(seed));
  std::erase_if(cases, [](const testing::FuzzCase& fuzz) { return fuzz.ill_conditioned; });
  REQUIRE(cases.size() > 4);
  std::vector<std::unique_ptr<JitEngine>> engines;  // all are loaded before the first kernel is compiled
  for (const testing::FuzzCase& fuzz : cases) {
    ir::Module module = fuzz.program.module;
    module.function("main").trains = fuzz.program.state.training;
    engines.push_back(checked_engine(module));
    engines.back()->prepare("main");
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const testing::RandomProgram& program = cases[i].program;
    INFO("seed " << cases[i].seed);
    const ir::Function& main = program.module.function("main");
    for (const auto& [name, tensor] : program.state.tensors) engines[i]->write_state(name, to_host(tensor));
    TensorMap inputs;
    for (std::size_t k = 0; k < program.inputs.size(); ++k)
      inputs.emplace(main.arguments[k].name, to_host(program.inputs[k]));
    const TensorMap actual = engines[i]->run("main", inputs);
    std::vector<ir::Tensor> results;
    for (const ir::Argument& result : main.results) results.push_back(to_double(actual.at(result.name)));
    CHECK(testing::first_difference(cases[i].expected, results, testing::kFuzzTolerance) == "");
    for (const auto& [name, expected] : cases[i].final_state.tensors) {
      INFO(name);
      CHECK(testing::first_difference({expected}, {to_double(engines[i]->read_state(name))},
                                      testing::kFuzzTolerance) == "");
    }
  }
}

ir::Module small_vit(std::int64_t batch, std::int64_t accumulate) {
  ir::Selection options{"vit"};
  options.set("dim", 24).set("depth", 2).set("heads", 2).set("patch", 4).set("image", 8).set("channels", 3);
  options.set("drop_path", 0.2).set("dropout", 0.1);
  ir::Module module = models::build(options, batch);
  programs::TrainOptions train;
  train.clip_norm = 1;
  train.accumulate = accumulate;
  programs::add_step_program(module, train);
  programs::add_eval_program(module);
  return module;
}

void start(Engine& engine, const ir::Module& module) {
  for (const auto& [name, value] : initialise(module, 3)) engine.write_state(name, value);
}

Bits bits_of(const Engine& engine, const ir::Module& module) {
  Bits state;
  for (const ir::Parameter& parameter : module.parameters) {
    const HostTensor value = engine.read_state(parameter.name);
    state.emplace(parameter.name, std::vector<std::byte>(value.bytes().begin(), value.bytes().end()));
  }
  return state;
}

TEST_CASE(
    "training steps of a vision transformer give the evaluator's losses and weights, and the same bits "
    "always") {
  constexpr std::int64_t kBatch = 3;
  const ir::Module module = small_vit(kBatch, 1);
  const auto evaluator = make_evaluator_engine(module);
  start(*evaluator, module);
  std::vector<TensorMap> expected;
  for (std::uint64_t step = 0; step < 4; ++step)
    expected.push_back(evaluator->run("step", testing::random_batch(kBatch, 8, step)));
  Bits first;
  for (const unsigned long order : {0UL, 1UL, 2UL}) {
    CAPTURE(order);
    const Clean clean;
    fake().order(order);
    const auto engine = order == 0 ? checked_engine(module) : make_cuda_engine(module);
    start(*engine, module);
    std::vector<Engine::Ticket> tickets;
    for (std::uint64_t step = 0; step < 4; ++step)
      tickets.push_back(engine->submit("step", testing::random_batch(kBatch, 8, step)));
    for (std::size_t step = 0; step < 4; ++step) {
      for (const auto& [name, tensor] : engine->results(tickets[step])) {
        CAPTURE(step, name);
        CHECK(testing::scaled_error(to_double(expected[step].at(name)), to_double(tensor), 0) <= 1e-4);
      }
    }
    for (const ir::Parameter& parameter : module.parameters) {
      INFO(parameter.name);
      const ir::Tensor weights = to_double(evaluator->read_state(parameter.name));
      CHECK(testing::scaled_error(weights, to_double(engine->read_state(parameter.name)), 1) <= 2e-3);
    }
    const Bits bits = bits_of(*engine, module);
    if (first.empty()) first = bits;
    CHECK(bits == first);
  }
}

TEST_CASE("a step that is not finite changes nothing but its flag, nor do those after it") {
  const Clean clean;
  const ir::Module module = small_vit(2, 1);
  const auto engine = make_cuda_engine(module);
  start(*engine, module);
  engine->run("step", testing::random_batch(2, 8, 1));
  Bits before = bits_of(*engine, module);
  TensorMap poisoned = testing::random_batch(2, 8, 2);
  poisoned.at("image").as<float>()[17] = std::numeric_limits<float>::infinity();
  const Engine::Ticket bad = engine->submit("step", poisoned),
                       after = engine->submit("step", testing::random_batch(2, 8, 3));
  CHECK(engine->results(bad).at("finite").as<std::uint8_t>()[0] == 0);
  CHECK(engine->results(after).at("finite").as<std::uint8_t>()[0] == 0);
  before.at("train.finite")[0] = std::byte{0};
  CHECK(bits_of(*engine, module) == before);
}

}  // namespace
}  // namespace rewire::runtime
