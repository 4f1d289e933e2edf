// What the compiling engine promises beside right numbers: the same bits on any number of threads, memory
// kept apart, plain errors.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "codegen/lowering_steps.h"
#include "codegen/program.h"
#include "ir/builder.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/passes/pass.h"
#include "ir/philox.h"
#include "models/model.h"
#include "programs/programs.h"
#include "runtime/exec/engine.h"
#include "runtime/exec/memory_plan.h"
#include "runtime/network/initialise.h"
#include "tests/support/catch.h"
#include "tests/support/host_noise.h"
#include "tests/support/message_of.h"

using namespace rewire;
using runtime::HostTensor;
using runtime::TensorMap;

namespace {

ir::Module small_vit(std::int64_t batch, int depth = 2) {
  ir::Selection options{"vit"};
  options.set("dim", 40)
      .set("depth", depth)
      .set("heads", 2)
      .set("patch", 4)
      .set("image", 12)
      .set("channels", 3);
  options.set("drop_path", 0.2).set("dropout", 0.1);
  ir::Module module = models::build(options, batch);
  programs::TrainOptions train;
  train.clip_norm = 1;
  programs::add_grad_program(module, train);
  programs::add_step_program(module, train);
  return module;
}

std::map<std::string, std::vector<std::byte>> train(const ir::Module& module, int threads, int steps,
                                                    bool tables = true, const ir::LeftOut& left_out = {}) {
  runtime::JitEngineOptions options;
  options.left_out = left_out;
  options.threads = threads;
  options.tables = tables;
  options.check_memory = true;
  const auto engine = runtime::make_jit_engine(module, options);
  for (const auto& [name, value] : runtime::initialise(module, 3)) engine->write_state(name, value);
  const ir::Function& function = module.function("step");
  const std::int64_t side = function.type(function.argument("image")).shape.back();
  for (int step = 0; step < steps; ++step)
    engine->run("step", testing::random_batch(5, side, 11 + static_cast<std::uint64_t>(step)));
  std::map<std::string, std::vector<std::byte>> state;
  for (const ir::Parameter& parameter : module.parameters) {
    const HostTensor value = engine->read_state(parameter.name);
    state.emplace(parameter.name, std::vector<std::byte>(value.bytes().begin(), value.bytes().end()));
  }
  return state;
}

}  // namespace

TEST_CASE("a deeper network needs no more code, though each block draws its own numbers at its own rate") {
  const auto unique = [](int depth) {
    return runtime::make_jit_engine(small_vit(5, depth), {})->report().unique_kernels;
  };
  CHECK(unique(4) == unique(7));
}

TEST_CASE("training gives the same bits on one, two and three threads, and again") {
  const ir::Module module = small_vit(5);
  const auto one = train(module, 1, 4);
  CHECK(one == train(module, 2, 4));
  CHECK(one == train(module, 3, 4));
  CHECK(one == train(module, 2, 4));
}

TEST_CASE("launches that became tables compute the same bits in as much memory") {
  ir::Module module = small_vit(5);
  CHECK(train(module, 2, 2) == train(module, 2, 2, false));
  module.functions = {module.function("step")};
  ir::PassContext context;
  ir::run_pipeline(module, context);
  const codegen::Program apart = codegen::lower(module, module.functions.front(), {true, {}, false});
  const codegen::Program tables = codegen::lower(module, module.functions.front());
  std::size_t members = 0;
  for (const codegen::Launch& launch : tables.launches) {
    const auto* kernel = std::get_if<codegen::KernelLaunch>(&launch);
    members += kernel == nullptr ? 1 : kernel->members();
  }
  CHECK(members == apart.launches.size());
  CHECK(tables.launches.size() < apart.launches.size());
  CHECK(runtime::plan_memory(tables).live_peak_bytes <=
        runtime::plan_memory(apart).live_peak_bytes + codegen::WorkGrain().table_bytes);
}

TEST_CASE("maps that sums take over compute the same bits in as much memory") {
  ir::Selection options{"resnetv2"};
  options.set("depths", ir::Doubles{1, 1}).set("width", 32).set("image", 24);
  ir::Module module = models::build(options, 5);
  programs::add_step_program(module, {});
  const ir::LeftOut names{std::string(codegen::kAppendMaps)};
  CHECK(train(module, 2, 2) == train(module, 3, 2, true, names));
  module.functions = {module.function("step")};
  ir::PassContext context;
  ir::run_pipeline(module, context);
  const codegen::Program appended = codegen::lower(module, module.functions.front());
  const codegen::Program apart = codegen::lower(module, module.functions.front(), {.left_out = names});
  CHECK(appended.launches.size() + 5 < apart.launches.size());
  CHECK(runtime::plan_memory(appended).live_peak_bytes <=
        runtime::plan_memory(apart).live_peak_bytes + codegen::WorkGrain().table_bytes);
}

TEST_CASE("buffers that live at one time never overlap in the plan, and the arena is near its bound") {
  ir::Module module = small_vit(7);
  module.functions = {module.function("step")};
  ir::PassContext context;
  ir::run_pipeline(module, context);
  const codegen::Program program = codegen::lower(module, module.functions.front());
  for (std::int64_t gap : {std::int64_t{0}, std::int64_t{256}}) {
    const runtime::MemoryPlan plan = runtime::plan_memory(program, gap);
    for (std::size_t a = 0; a < plan.buffers.size(); ++a) {
      for (std::size_t b = a + 1; b < plan.buffers.size(); ++b) {
        const auto &x = plan.buffers[a], &y = plan.buffers[b];
        if (x.offset < 0 || y.offset < 0 || x.last < y.first || y.last < x.first) continue;
        INFO(program.buffers[a].name << " and " << program.buffers[b].name);
        CHECK((x.offset + x.bytes + gap <= y.offset || y.offset + y.bytes + gap <= x.offset));
      }
    }
    if (gap == 0)
      CHECK(static_cast<double>(plan.arena_bytes) <= 1.1 * static_cast<double>(plan.live_peak_bytes));
  }
}

TEST_CASE("a byte written behind a buffer is found, whichever buffer and byte") {
  ir::Module module = small_vit(2);
  module.functions = {module.function("grad")};
  ir::PassContext context;
  ir::run_pipeline(module, context);
  const codegen::Program program = codegen::lower(module, module.functions.front());
  const runtime::MemoryPlan plan = runtime::plan_memory(program, runtime::kGap);
  const std::vector<runtime::MemoryGap> gaps = runtime::gaps_of(plan, runtime::kGap);
  REQUIRE(gaps.size() > 10);
  std::vector<std::byte> arena(static_cast<std::size_t>(plan.arena_bytes), std::byte{7});
  for (const runtime::MemoryGap& gap : gaps)
    std::fill_n(arena.begin() + gap.offset, runtime::kGap, std::byte{runtime::kGapByte});
  CHECK_NOTHROW(runtime::check_gaps(program, plan, arena));
  for (const runtime::MemoryGap& gap : gaps) {
    for (const std::int64_t at : {std::int64_t{0}, runtime::kGap - 1}) {
      std::byte& hit = arena[static_cast<std::size_t>(gap.offset + at)];
      hit = std::byte{0};
      const std::string message =
          test::message_of<InternalError>([&] { runtime::check_gaps(program, plan, arena); });
      // Buffers of different times may end at one place.
      CHECK(std::ranges::any_of(gaps, [&](const runtime::MemoryGap& other) {
        return other.offset <= gap.offset + at && gap.offset + at < other.offset + runtime::kGap &&
               message ==
                   "program 'grad' wrote past the end of buffer '" + program.buffers[other.buffer].name + "'";
      }));
      hit = std::byte{runtime::kGapByte};
    }
  }
}

TEST_CASE("the compiling engine refuses what the evaluator refuses, in the same words") {
  const ir::Module module = small_vit(2);
  const auto jit = runtime::make_jit_engine(module, {});
  const auto evaluator = runtime::make_evaluator_engine(module);
  TensorMap inputs = testing::random_batch(3, 12, 1);
  for (runtime::Engine* engine : {static_cast<runtime::Engine*>(jit.get()), evaluator.get()}) {
    CHECK_THROWS_WITH(engine->run("grad", inputs),
                      "input 'image' of function 'grad' is f32[2,3,12,12], not f32[3,3,12,12]");
    CHECK_THROWS_WITH(engine->run("gard", inputs),
                      "module @vit has no function 'gard' (did you mean 'grad'?)");
    CHECK_THROWS_WITH(engine->write_state("head.bias", HostTensor({ir::DType::f32, {3}})),
                      "parameter 'head.bias' is f32[10], not f32[3]");
  }
}

TEST_CASE("weights that no program writes are packed once, and again after somebody wrote them") {
  const bool updates = GENERATE(false, true);
  ir::Module module;
  for (const auto& [name, shape] : {std::pair{"matrix", ir::Shape{33, 70}}, {"kernel", {5, 3, 3, 3}}}) {
    ir::Parameter weight;
    weight.name = name;
    weight.type = {ir::DType::f32, shape};
    module.add_parameter(weight);
  }
  ir::Function forward, grow;
  forward.name = "forward", grow.name = "grow";
  {
    ir::Builder b(module, forward);
    const ir::Value x = b.argument("x", {ir::DType::f32, {20, 70}}),
                    maps = b.argument("maps", {ir::DType::f32, {2, 3, 9, 8}});
    b.result("product", b.matmul(x, b.param("matrix"), false, true));
    b.result("convolved", b.emit(ir::Opcode::conv2d, {maps, b.param("kernel")},
                                 {{"strides", ir::Ints{1, 1}}, {"padding", ir::Ints{1, 1}}}));
  }
  module.functions.push_back(forward);
  if (updates) {
    for (const char* name : {"matrix", "kernel"}) {
      ir::Builder b(module, grow);
      b.emit(ir::Opcode::update, {b.mul(b.param(name), 1.5)}, {{"name", std::string(name)}});
    }
    module.functions.push_back(grow);
  }
  const auto drawn = [](const ir::Shape& shape, unsigned seed) {
    HostTensor tensor({ir::DType::f32, shape});
    std::mt19937 random(seed);
    for (float& x : tensor.as<float>()) x = std::uniform_real_distribution<float>(-1, 1)(random);
    return tensor;
  };
  TensorMap inputs;
  inputs.emplace("x", drawn({20, 70}, 1));
  inputs.emplace("maps", drawn({2, 3, 9, 8}, 2));
  runtime::JitEngineOptions options;
  options.threads = 2;
  options.check_memory = true;
  const auto engine = runtime::make_jit_engine(module, options);
  const auto evaluator = runtime::make_evaluator_engine(module);
  for (unsigned round = 0; round < 4; ++round) {
    CAPTURE(round);
    if (updates && round % 2 == 1) {
      for (runtime::Engine* each : {static_cast<runtime::Engine*>(engine.get()), evaluator.get()})
        each->run("grow", {});
    } else if (round != 1) {
      for (const ir::Parameter& weight : module.parameters) {
        const HostTensor value = drawn(weight.type.shape, 10 + round);
        engine->write_state(weight.name, value);
        evaluator->write_state(weight.name, value);
      }
    }
    const TensorMap got = engine->run("forward", inputs), expected = evaluator->run("forward", inputs);
    for (const auto& [name, tensor] : expected) {
      for (std::size_t i = 0; i < tensor.as<float>().size(); ++i)
        REQUIRE(std::abs(got.at(name).as<float>()[i] - tensor.as<float>()[i]) < 1e-5F);
    }
  }
  engine->profile("forward", inputs, 2);
  CHECK((engine->report().packed_bytes > 0) == !updates);
  CHECK(engine->report().packings == (updates ? 0 : 3));  // of rounds 0, 2 and 3
}

TEST_CASE("a result that is state is what the state was before its update") {
  ir::Module module;
  ir::Parameter count;
  count.name = "count";
  count.type = {ir::DType::f32, {3}};
  module.add_parameter(count);
  ir::Function& main = module.functions.emplace_back();
  main.name = "main";
  ir::Builder b(module, main);
  const ir::Value before = b.param("count");
  b.emit(ir::Opcode::update, {b.add(before, 1)}, {{"name", std::string("count")}});
  b.result("before", before);
  const auto engine = runtime::make_jit_engine(module, {});
  for (const float expected : {0.0F, 1.0F, 2.0F})
    CHECK(engine->run("main", {}).at("before").as<float>()[2] == expected);
}
