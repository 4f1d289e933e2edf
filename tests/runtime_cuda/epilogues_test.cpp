// GELU by tanh and its gradient as epilogues of cuBLASLt's products, on the fake libraries: against the
// evaluator and PyTorch, in every type and at odd sizes; refused, the network is computed as without; who
// computes them is a choice.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>

#include "codegen/cost.h"
#include "ir/autodiff/autodiff.h"
#include "ir/builder.h"
#include "ir/opcodes.h"
#include "ir/passes/mixed_precision.h"
#include "ir/verify.h"
#include "models/model.h"
#include "programs/programs.h"
#include "runtime/exec/cuda/device_programs.h"
#include "runtime/exec/cuda/engine.h"
#include "runtime/exec/cuda/tune/epilogue_choices.h"
#include "tests/parity/autocast.h"
#include "tests/parity/parity.h"
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

constexpr std::int64_t kBatch = 3, kTokens = 7, kWidth = 16;

/// y = gelu(x w1^T + b1) w2^T; "shown" has what GELU is computed of as well, "grad" the gradients of the mean
/// square of y.
ir::Module example(std::int64_t hidden, bool narrow, const char* approximate = "tanh") {
  ir::Module module;
  module.name = "example";
  for (const auto& [name, shape] : std::vector<std::pair<std::string, ir::Shape>>{
           {"w1", {hidden, kWidth}}, {"b1", {hidden}}, {"w2", {kWidth, hidden}}}) {
    ir::Parameter parameter;
    parameter.name = name;
    parameter.type = {DType::f32, shape};
    module.add_parameter(parameter);
  }
  for (const std::string name : {"infer", "shown", "grad"}) {
    ir::Function function;
    function.name = name;
    ir::Builder b(module, function);
    const Value x = b.argument("x", {DType::f32, {kBatch, kTokens, kWidth}});
    const Value w1 = b.param("w1"), b1 = b.param("b1"), w2 = b.param("w2");
    b.set_location("fc1");
    const Value pre = b.linear(x, w1, b1);
    b.set_location("act");
    const Value activated = b.emit(Opcode::gelu, {pre}, {{"approximate", std::string(approximate)}});
    b.set_location("fc2");
    b.result("y", b.linear(activated, w2));
    if (name == "shown") b.result("pre", pre);
    if (narrow) ir::mixed_precision(module, function, {});
    if (name == "grad") {
      ir::Builder more(module, function);
      const Value y = function.results[0].value;
      const Value loss = more.reshape(more.mean(more.mul(y, y), {0, 1, 2}), {});
      std::vector<Value> weights;
      std::vector<std::string> names;
      for (const ir::Op& op : function.body) {
        if (op.code != Opcode::param) continue;
        weights.push_back(op.results[0]);
        names.push_back(op.attributes.get_string("name"));
      }
      const std::vector<Value> gradients = ir::differentiate(more, loss, weights);
      for (std::size_t i = 0; i < names.size(); ++i) more.result(names[i], gradients[i]);
    }
    module.functions.push_back(std::move(function));
  }
  ir::verify(module);
  return module;
}

TensorMap inputs() {
  TensorMap inputs;
  inputs.emplace("x", testing::noise({kBatch, kTokens, kWidth}, 1));
  return inputs;
}

void start(Engine& engine, const ir::Module& module) {
  std::uint64_t seed = 10;
  for (const ir::Parameter& parameter : module.parameters)
    engine.write_state(parameter.name, testing::noise(parameter.type.shape, seed++));
}

std::unique_ptr<JitEngine> device(const ir::Module& module, const ChoiceRecord& choices = {}) {
  CudaEngineOptions options;
  options.check_memory = true;
  options.choices = choices;
  return make_cuda_engine(module, options);
}

/// What the products of a function compute beside the sum, each once.
std::set<std::string> epilogues(JitEngine& engine, const std::string& function) {
  std::set<std::string> found;
  for (const LaunchTime& time : engine.profile(function, inputs(), 1)) {
    for (const char* epilogue : {", gelu gradient ", ", gelu, pre ", ", gelu "}) {
      if (time.name.find(epilogue) == std::string::npos) continue;
      found.insert(epilogue);
      break;
    }
  }
  return found;
}

using Epilogues = std::set<std::string>;
const std::string kGelu = ", gelu ", kKept = ", gelu, pre ", kGradient = ", gelu gradient ";

void check_against_evaluator(JitEngine& engine, const ir::Module& module, double tolerance) {
  const auto evaluator = make_evaluator_engine(module, Rounding::dtypes);
  start(engine, module);
  start(*evaluator, module);
  for (const ir::Function& function : module.functions) {
    const TensorMap expected = evaluator->run(function.name, inputs());
    const TensorMap actual = engine.run(function.name, inputs());
    for (const auto& [name, tensor] : expected) {
      CAPTURE(function.name, name);
      CHECK(testing::scaled_error(to_double(tensor), to_double(actual.at(name)), 0) <= tolerance);
    }
  }
}

TEST_CASE("GELU by tanh is computed with its product where cuBLASLt takes it, else as without") {
  struct Expected {
    std::string rules;
    std::int64_t hidden;
    Epilogues infer, shown, grad;
  };
  for (const Expected& expected :
       {Expected{"", 24, {kGelu}, {kKept}, {kKept, kGradient}},
        Expected{"", 8, {kGelu}, {kKept}, {kKept, kGradient}},
        // Rows of what is kept begin at multiples of 8 elements, or it is not.
        Expected{"", 17, {kGelu}, {}, {}}, Expected{"", 20, {kGelu}, {}, {}},
        Expected{"gelu", 24, {}, {}, {kGradient}}, Expected{"gelu_gradient", 24, {kGelu}, {kKept}, {kKept}},
        Expected{"gelu gelu_gradient", 24, {}, {}, {}},
        Expected{"bias", 24, {kGelu}, {kKept}, {kKept, kGradient}},
        Expected{"bias gelu gelu_gradient misaligned", 17, {}, {}, {}}}) {
    for (const bool narrow : {false, true}) {
      CAPTURE(expected.rules, expected.hidden, narrow);
      const Clean clean;
      fake().refuse(expected.rules.c_str());
      const ir::Module module = example(expected.hidden, narrow);
      const auto engine = device(module);
      check_against_evaluator(*engine, module, narrow ? 2e-2 : 1e-5);
      CHECK(epilogues(*engine, "infer") == expected.infer);
      CHECK(epilogues(*engine, "shown") == expected.shown);
      CHECK(epilogues(*engine, "grad") == expected.grad);
    }
  }
  fake().reset();
}

TEST_CASE("GELU by erf is never cuBLASLt's") {
  for (const bool narrow : {false, true}) {
    const Clean clean;
    const ir::Module module = example(24, narrow, "none");
    const auto engine = device(module);
    check_against_evaluator(*engine, module, narrow ? 2e-2 : 1e-5);
    for (const char* function : {"infer", "shown", "grad"}) CHECK(epilogues(*engine, function).empty());
  }
}

TEST_CASE("an epilogue's call that fails is named, with the product") {
  const ir::Module module = example(24, false);
  fake().reset();
  fake().fail("cublasLtMatmul", 1, 13);
  const std::string message =
      test::message_of<RuntimeFailure>([&] { device(module)->run("infer", inputs()); });
  CAPTURE(message);
  CHECK(message.starts_with("cublasLtMatmul for gemm 21x24x16 f32 + bias, gelu a="));
  CHECK(message.find('\n') == std::string::npos);
  CHECK(std::string(fake().live()).empty());
  fake().reset();
}

ir::Module small_vit(const std::string& act_layer, bool narrow) {
  ir::Selection options{"vit"};
  options.set("dim", 24).set("depth", 2).set("heads", 2).set("patch", 4).set("image", 8);
  options.set("channels", 3).set("act_layer", act_layer);
  ir::Module module = models::build(options, 3);
  if (narrow) ir::mixed_precision(module, module.function("forward"), {});
  programs::add_grad_program(module, {});
  ir::verify(module);
  return module;
}

TEST_CASE("each MLP of a vision transformer with gelu_tanh is two epilogues, and none with gelu") {
  for (const bool narrow : {false, true}) {
    for (const char* act_layer : {"gelu", "gelu_tanh"}) {
      CAPTURE(narrow, act_layer);
      const Clean clean;
      const ir::Module module = small_vit(act_layer, narrow);
      DevicePrograms device(module, {"forward", "grad"});
      std::map<codegen::GemmEpilogue, int> found;
      for (const codegen::Program& program : device.programs) {
        for (const codegen::Launch& launch : program.launches) {
          if (const auto* gemm = std::get_if<codegen::GemmLaunch>(&launch)) ++found[gemm->epilogue];
        }
      }
      const int blocks = std::string(act_layer) == "gelu" ? 0 : 2;
      CHECK(found[codegen::GemmEpilogue::gelu] == 2 * blocks);
      CHECK(found[codegen::GemmEpilogue::gelu_gradient] == blocks);
      CHECK(device.epilogues.size() == (blocks == 0 ? 0 : 3));
    }
  }
}

TEST_CASE("a vision transformer with gelu_tanh agrees with PyTorch, in f32 and in bf16", "[whole]") {
  const Clean clean;
  const auto make = [](const ir::Module& module) -> std::unique_ptr<Engine> { return device(module); };
  const parity::Backend backend{make, DType::f32, {}};
  parity::check_gradients(parity::read_golden("vit_slim_tanh_plain"), backend, parity::kSingle);
  parity::check_gradients(parity::read_golden("vit_odd_tanh_plain"), backend, parity::kSingle);
  parity::check_run(parity::read_golden("vit_odd_tanh_plain"), "adamw", backend, parity::kSingle);
  // Of hidden width 16, which all epilogues take; 12, the odd one's, is our kernels'.
  std::set<codegen::GemmEpilogue> taken;
  const auto watched = [&](const ir::Module& module) -> std::unique_ptr<Engine> {
    std::vector<std::string> functions;
    for (const ir::Function& function : module.functions) functions.push_back(function.name);
    for (const codegen::ProductEpilogue& one : DevicePrograms(module, functions).epilogues)
      taken.insert(one.epilogue);
    return device(module);
  };
  parity::check_run(parity::read_golden("vit_slim_tanh_steps"), "adamw", {watched, DType::f32, {}},
                    parity::kSingle);
  CHECK(taken == std::set{codegen::GemmEpilogue::gelu, codegen::GemmEpilogue::gelu_gradient});
  parity::check_against_autocast("vit_slim_tanh_plain", {}, make);
}

/// Asked for a module's epilogues alone.
TunerOptions options(const std::string& folder) {
  return timing_in(folder,
                   [](const ir::Module& module, const std::vector<std::string>& functions, Tuner& tuner) {
                     const DevicePrograms programs(module, functions);
                     choose_epilogues(programs.epilogues, ir::allows_tf32(module), tuner, device_trial);
                   });
}

ChoiceRecord choose(ir::Module module, Tuner& tuner) {
  make_choices(module, {"infer", "shown", "grad"}, tuner);
  return tuner.record();
}

TEST_CASE("who computes an epilogue is timed once and recorded, and what is recorded is computed") {
  for (const bool narrow : {false, true}) {
    CAPTURE(narrow);
    const Clean clean;
    const test::TemporaryFolder folder;
    const ir::Module module = example(24, narrow);
    const std::string type = narrow ? "bf16" : "f32";
    Tuner first(options(folder.file("cache")));
    const ChoiceRecord record = choose(module, first);
    REQUIRE(record.made().size() == 3);
    CHECK(record.made()[0].key == "epilogue gelu 21x24x16 " + type);
    CHECK(record.made()[1].key == "epilogue gelu, pre 21x24x16 " + type);
    CHECK(record.made()[2].key == "epilogue gelu_gradient 21x24x16 " + type);
    CHECK(first.timed() == 3);
    for (const MadeChoice& choice : record.made()) {
      CHECK(choice.by == kByTiming);
      CHECK((choice.taken == kCublasLtAnswer || choice.taken == kOwnKernels));
      CHECK_FALSE(choice.seconds.empty());
    }
    Tuner second(options(folder.file("cache")));
    CHECK(choose(module, second) == record);
    CHECK(second.timed() == 0);

    for (const std::string_view answer : {kCublasLtAnswer, kOwnKernels}) {
      CAPTURE(answer);
      ChoiceRecord given;
      for (const MadeChoice& choice : record.made())
        given.add({choice.key, std::string(answer), choice.by, {}});
      TunerOptions replay = options("");
      replay.given = given;
      Tuner third(replay);
      CHECK(choose(module, third) == given);
      CHECK(third.refused() == 0);
      const auto engine = device(module, given);
      check_against_evaluator(*engine, module, narrow ? 2e-2 : 1e-5);
      const bool ours = answer == kOwnKernels;
      CHECK(epilogues(*engine, "infer") == (ours ? Epilogues{} : Epilogues{kGelu}));
      CHECK(epilogues(*engine, "grad") == (ours ? Epilogues{} : Epilogues{kKept, kGradient}));
    }
  }
}

TEST_CASE("a recorded epilogue that cuBLASLt refuses here is reported, one that nobody recorded is not") {
  const Clean clean;
  fake().refuse("gelu");
  const ir::Module module = example(24, false);
  const DevicePrograms programs(module, {"infer", "shown", "grad"});
  CHECK(programs.epilogues.size() == 1);  // of the gradient
  REQUIRE(programs.refused_epilogues.size() == 2);
  TunerOptions asked = options("");
  CHECK(report_refused(programs.refused_epilogues, false, Tuner(asked)) == 0);
  asked.given.add({codegen::epilogue_key(programs.refused_epilogues[1], false),
                   std::string(kCublasLtAnswer),
                   "timing",
                   {}});
  CHECK(report_refused(programs.refused_epilogues, false, Tuner(asked)) == 1);
}

TEST_CASE("each trial of an epilogue has it where cuBLASLt was chosen, and not where our kernels were") {
  const Clean clean;
  for (const bool narrow : {false, true}) {
    std::vector<std::pair<std::string, bool>> trials;  // the answer, whether a call has an epilogue
    const test::TemporaryFolder folder;
    TunerOptions timing = options(folder.file("cache"));
    timing.late_choices = [&](const ir::Module& module, const std::vector<std::string>& functions,
                              Tuner& tuner) {
      const DevicePrograms programs(module, functions);
      choose_epilogues(programs.epilogues, false, tuner,
                       [&](const ir::Module& trial, const ChoiceRecord& choices) {
                         const DevicePrograms own(trial, {"trial"}, choices);
                         trials.emplace_back(choices.made()[0].taken, !own.epilogues.empty());
                         if (!own.epilogues.empty())
                           CHECK(codegen::epilogue_key(own.epilogues[0]) == choices.made()[0].key);
                         return device_trial(trial, choices);
                       });
    };
    Tuner tuner(timing);
    choose(example(24, narrow), tuner);
    REQUIRE(trials.size() == 6);
    for (const auto& [answer, has_epilogue] : trials) CHECK((answer == kCublasLtAnswer) == has_epilogue);
  }
}

}  // namespace
}  // namespace rewire::runtime
