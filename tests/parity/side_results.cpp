#include "tests/parity/side_results.h"

#include <cmath>

#include "ir/builder.h"
#include "ir/opcodes.h"
#include "ir/side_results.h"
#include "ir/verify.h"
#include "models/model.h"
#include "programs/programs.h"
#include "runtime/network/weights.h"
#include "runtime/verify/perturbed_state.h"
#include "tests/support/catch.h"

namespace rewire::parity {
namespace {

using ir::Builder;
using ir::Value;
using runtime::Engine;
using runtime::TensorMap;

constexpr const char* kWeight = "blocks.0.attn.qkv.weight";
constexpr int kSteps = 3;

void add_side_results(ir::Module& module) {
  ir::Parameter& weight = *module.find_parameter(kWeight);
  weight.hint = {3.0, 0.01, 0.8, 0.9};
  ir::Parameter average;
  average.name = "average";
  average.type = weight.type;
  average.trainable = average.decay = false;
  average.role = "join";
  module.add_parameter(average);
  ir::Parameter progress = average;
  progress.name = ir::kProgress;
  progress.type = {ir::DType::f32, {}};
  progress.role = ir::kProgressRole;
  module.add_parameter(progress);

  ir::Function forward = module.function("forward");
  Builder b(module, forward);
  b.set_location("side");
  const Value w = b.param(kWeight), share = b.param(progress.name);
  const Value square = b.reshape(b.sum(b.mul(w, w), {0, 1}), {});
  b.result("report.square", square);
  b.result("report.progress", share);
  b.result("loss.square", b.mul(b.mul(square, 0.01), b.add(share, 1)));
  b.result("update.average", b.add(b.mul(b.param("average"), 0.9), b.mul(w, 0.1)));
  b.result(std::string("after_step.") + kWeight, b.mul(w, b.mul(b.unary(ir::Opcode::rsqrt, square), 2)));
  module.function("forward") = std::move(forward);
}

ir::Module network(const std::string& optimizer, std::int64_t accumulate) {
  ir::Selection options{"vit"};
  options.set("image", 9).set("patch", 3).set("channels", 2).set("classes", 5);
  options.set("dim", 12).set("heads", 2).set("depth", 1);
  options.set("drop_path", 0.2);
  ir::Module module = models::build(options, 4);
  add_side_results(module);
  programs::TrainOptions train;
  train.optimizer.name = optimizer;
  train.accumulate = accumulate;
  train.timeline.total_steps = kSteps + 1;
  programs::add_step_program(module, train);
  ir::verify(module);
  return module;
}

/// The state behind the steps, and the last results, by name.
TensorMap train(Engine& engine, const ir::Module& module, std::int64_t accumulate) {
  runtime::start_state(engine, module, runtime::fresh_weights(module, {}, 5), 5);
  TensorMap seen;
  const std::string program = accumulate == 1 ? "step" : "accumulate";
  const ir::Function& function = module.function(program);
  for (std::uint64_t batch = 0; batch < static_cast<std::uint64_t>(kSteps * accumulate); ++batch) {
    TensorMap inputs;
    for (const ir::Argument& argument : function.arguments)
      inputs.emplace(argument.name,
                     runtime::to_host(runtime::random_argument(module, function, argument, batch)));
    for (auto& [name, tensor] : engine.run(program, inputs)) seen.insert_or_assign(name, tensor.clone());
    if (accumulate > 1 && batch % 2 == 1) engine.run("apply", {});
  }
  for (const ir::Parameter& parameter : module.parameters)
    seen.insert_or_assign(parameter.name, engine.read_state(parameter.name));
  return seen;
}

double norm_of(const std::vector<double>& values) {
  double square = 0;
  for (const double value : values) square += value * value;
  return std::sqrt(square);
}

}  // namespace

void check_side_results(const std::function<std::unique_ptr<Engine>(const ir::Module&)>& make_engine) {
  constexpr double kTolerance = 1e-3;  // of a run in f32, as parity_test has it
  for (const std::string optimizer : {"adamw", "sgd"}) {
    for (const std::int64_t accumulate : {1, 2}) {
      CAPTURE(optimizer, accumulate);
      const ir::Module module = network(optimizer, accumulate);
      const TensorMap expected = train(*runtime::make_evaluator_engine(module), module, accumulate);
      const TensorMap actual = train(*make_engine(module), module, accumulate);
      REQUIRE(actual.size() == expected.size());
      for (const std::string_view name : {"loss", "plain_loss", "report.square", "average", kWeight}) {
        CAPTURE(name);
        const std::vector<double> want = to_double(expected.find(name)->second).data;
        std::vector<double> error = to_double(actual.find(name)->second).data;
        for (std::size_t i = 0; i < error.size(); ++i) error[i] -= want[i];
        CHECK(norm_of(want) > 0);
        CHECK(norm_of(error) <= kTolerance * norm_of(want));
      }
      CHECK(actual.at("report.progress").as<float>()[0] == 0.5F);
      CHECK(actual.at("train.progress").as<float>()[0] == 0.75F);
      CHECK(norm_of(to_double(actual.at(kWeight)).data) == Approx(2).epsilon(1e-5));
    }
  }
}

}  // namespace rewire::parity
