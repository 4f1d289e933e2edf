// The moving averages of weights, step by step against torch.optim.swa_utils.AveragedModel's rule as a loop:
// e_1 = w_1, then e_t = e_{t-1} + (1 - d)(w_t - e_{t-1}).
#include <cmath>
#include <functional>
#include <limits>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "programs/programs.h"
#include "tests/runtime_train/linear_model.h"
#include "tests/support/catch.h"

namespace rewire::runtime {
namespace {

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
const std::vector<double> kTwoLabels = {0, 1};

programs::TrainOptions averaging(double decay, bool warmup = false, std::int64_t accumulate = 1) {
  programs::TrainOptions options;
  options.optimizer.set("lr", 0.05);
  options.ema = decay;
  options.ema_warmup = warmup;
  options.accumulate = accumulate;
  return options;
}

/// linear_model(2, 2, 2) that halves the state "m" and adds the sum of its logits to it.
ir::Module model_with_statistic() {
  ir::Module module = linear_model(2, 2, 2);
  module.add_state("m", {ir::DType::f32, {}}, ir::StateKind::statistic);
  module.add_state("count", {ir::DType::i64, {}}, ir::StateKind::statistic);
  ir::Function forward = module.function("forward");
  ir::Builder b(module, forward);
  const ir::Value sum = b.reshape(b.sum(forward.result("logits"), {0, 1}), {});
  b.result("update.m", b.add(b.mul(b.param("m"), 0.5), sum));
  b.result("update.count", b.add(b.param("count"), 1));
  module.function("forward") = forward;
  return module;
}

std::vector<double> batch_of(int step) {
  return numbers(4, 20 + step);
}

/// Steps, each behind which `check` is told how many were done.
void train(const ir::Module& module, ir::EvalState& state, std::int64_t accumulate, int steps,
           const std::function<void(int done)>& check) {
  for (int step = 0; step < steps; ++step) {
    for (std::int64_t micro = 0; micro < accumulate; ++micro)
      call(module, accumulate == 1 ? "step" : "accumulate", {batch_of(step), kTwoLabels}, state);
    if (accumulate > 1) call(module, "apply", {}, state);
    check(step + 1);
  }
}

TEST_CASE("An average begins as the weight behind the first step, and then follows it by the decay") {
  for (const std::int64_t accumulate : {1, 2}) {
    for (const bool warmup : {false, true}) {
      CAPTURE(accumulate, warmup);
      constexpr double kDecay = 0.6;
      ir::Module module = model_with_statistic();
      programs::add_step_program(module, averaging(kDecay, warmup, accumulate));
      ir::verify(module);
      CHECK(programs::averaged_parameters(module) == std::vector<std::string>{"w", "b", "m"});
      CHECK(module.find_parameter("ema.count") == nullptr);
      ir::EvalState state = start(module, {{"w", numbers(4, 2)}});
      std::map<std::string, std::vector<double>> loop;
      train(module, state, accumulate, 6, [&](int t) {
        const double rising = 1 - std::pow(t, -2.0 / 3);  // timm's ModelEmaV3 with use_warmup, of step t
        const double decay = t == 1 ? 0 : warmup ? std::min(kDecay, rising) : kDecay;
        for (const char* name : {"w", "b", "m"}) {
          const std::vector<double>& weight = state.tensors.at(name).data;
          std::vector<double>& average = loop[name];
          average.resize(weight.size());
          for (std::size_t i = 0; i < weight.size(); ++i) {
            average[i] = decay * average[i] + (1 - decay) * weight[i];
            CAPTURE(t, name, i);
            CHECK(state.tensors.at(programs::average_name(name)).data[i] ==
                  Approx(average[i]).epsilon(1e-12));
          }
        }
      });
      CHECK(loop.at("w") != state.tensors.at("w").data);
    }
  }
}

TEST_CASE("A step that is not finite leaves the averages as they were") {
  ir::Module module = model_with_statistic();
  programs::add_step_program(module, averaging(0.6));
  ir::EvalState state = start(module, {{"w", numbers(4, 2)}});
  train(module, state, 1, 2, [](int) {});
  const auto before = state.tensors;
  CHECK(call(module, "step", {{kNotANumber, 1, 1, 1}, kTwoLabels}, state).at("finite")[0] == 0);
  for (const char* name : {"ema.w", "ema.b", "ema.m"})
    CHECK(state.tensors.at(name).data == before.at(name).data);
}

TEST_CASE("eval_ema tells of the averages what eval tells of weights with their values") {
  ir::Module module = linear_model(2, 2, 2);
  programs::add_step_program(module, averaging(0.6));
  programs::add_eval_program(module);
  const programs::Metrics metrics = programs::add_average_eval_program(module);
  ir::verify(module);
  CHECK(metrics.front().name == "loss");
  const std::vector<double> w = numbers(4, 2), average = numbers(4, 3), x = numbers(4, 4);
  ir::EvalState state = start(module, {{"w", w}, {"b", {1, 2}}, {"ema.w", average}, {"ema.b", {3, 5}}});
  ir::EvalState swapped = start(module, {{"w", average}, {"b", {3, 5}}, {"ema.w", w}, {"ema.b", {1, 2}}});
  const std::vector<std::vector<double>> batch = {x, kTwoLabels, {1, 1}};
  CHECK(call(module, "eval_ema", batch, state) == call(module, "eval", batch, swapped));
  CHECK(call(module, "eval", batch, state) == call(module, "eval_ema", batch, swapped));
  CHECK(call(module, "eval", batch, state) != call(module, "eval_ema", batch, state));
}

TEST_CASE("An average is no weight of a network, says whose it is, and keeps that as text") {
  ir::Module module = linear_model(2, 2, 2);
  programs::add_step_program(module, averaging(0.6));
  const ir::Module again = ir::parse(ir::print(module), "m.rir");
  CHECK(ir::print(again) == ir::print(module));
  for (const ir::Module* of : {static_cast<const ir::Module*>(&module), &again}) {
    const ir::Parameter* average = of->find_parameter("ema.w");
    REQUIRE(average != nullptr);
    CHECK(average->average_of == "w");
    CHECK(average->kind == ir::StateKind::average);
    CHECK_FALSE(average->is_weight());
    CHECK_FALSE(average->trainable);
  }
  ir::Module without = linear_model(2, 2, 2);
  programs::add_step_program(without, averaging(0));
  CHECK(without.find_parameter("ema.w") == nullptr);
}

TEST_CASE("Averages that cannot be are refused by their recipe key") {
  const auto refuses = [](double decay, bool warmup, const std::string& message) {
    ir::Module module = linear_model(2, 2, 2);
    CHECK_THROWS_AS(programs::add_step_program(module, averaging(decay, warmup)), UserError);
    CHECK_THROWS_WITH(programs::add_step_program(module, averaging(decay, warmup)),
                      REWIRE_CATCH_CONTAINS(message));
  };
  refuses(1, false, "train.ema is 1; it must be at least 0 and below 1");
  refuses(-0.1, false, "train.ema is -0.1");
  refuses(kNotANumber, false, "train.ema is nan");
  refuses(0, true, "train.ema_warmup is on, but train.ema is 0");
}

}  // namespace
}  // namespace rewire::runtime
