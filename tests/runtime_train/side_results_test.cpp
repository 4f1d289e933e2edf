// What a training step makes of forward's side results and of the progress, on a model that can be followed
// by hand: logits = image W^T + b of 2 classes.
#include "ir/side_results.h"

#include <cmath>
#include <functional>
#include <limits>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/passes/mixed_precision.h"
#include "ir/verify.h"
#include "programs/programs.h"
#include "tests/runtime_train/linear_model.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

using ir::Builder;
using ir::DType;
using ir::Opcode;
using ir::Value;

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
const std::vector<double> kLabel = {0, 1};

programs::TrainOptions sgd_options(double lr, std::int64_t accumulate = 1) {
  programs::TrainOptions options;
  options.optimizer = {"sgd"};
  options.optimizer.set("lr", lr).set("momentum", 0.0).set("weight_decay", 0.0);
  options.accumulate = accumulate;
  return options;
}

Value sum_of(Builder& b, Value x) {
  return b.reshape(b.sum(x, {0, 1}), {});
}

/// linear_model(2, 2, 2) with the side results that `add` gives it from its builder, W and logits.
ir::Module model_with(const std::function<void(Builder&, Value w, Value logits)>& add) {
  ir::Module module = linear_model(2, 2, 2);
  for (const char* name : {"m", "train.progress"}) {
    ir::Parameter p;
    p.name = name;
    p.type = {DType::f32, {}};
    p.trainable = p.decay = false;
    p.role = name == std::string("m") ? "join" : std::string(ir::kProgressRole);
    module.add_parameter(p);
  }
  ir::Function forward = module.function("forward");
  Builder b(module, forward);
  add(b, b.param("w"), forward.result("logits"));
  module.function("forward") = forward;
  return module;
}

/// m' = m / 2 + the sum of the logits.
ir::Module model_with_state() {
  return model_with([](Builder& b, Value, Value logits) {
    b.result("update.m", b.add(b.mul(b.param("m"), 0.5), sum_of(b, logits)));
  });
}

/// w is divided by its norm behind every step.
ir::Module model_with_constraint() {
  return model_with([](Builder& b, Value w, Value) {
    b.result("after_step.w", b.mul(w, b.unary(Opcode::rsqrt, sum_of(b, b.mul(w, w)))));
  });
}

double length_of(const std::vector<double>& values) {
  double square = 0;
  for (const double value : values) square += value * value;
  return std::sqrt(square);
}

TEST_CASE("A term of the loss is differentiated with it, and told apart from it") {
  const auto with_term = [](bool term) {
    ir::Module module = model_with([&](Builder& b, Value w, Value) {
      if (term) b.result("loss.t", b.mul(sum_of(b, b.mul(w, w)), 0.5));
    });
    programs::add_grad_program(module, {});
    programs::add_step_program(module, sgd_options(0.1));
    programs::add_eval_program(module);
    ir::verify(module);
    return module;
  };
  const ir::Module plain = with_term(false), whole = with_term(true);
  const std::vector<double> x = numbers(4, 1), w = numbers(4, 2);
  ir::EvalState a = start(plain, {{"w", w}}), b = start(whole, {{"w", w}});
  const auto plain_grad = call(plain, "grad", {x, kLabel}, a), grad = call(whole, "grad", {x, kLabel}, b);
  for (std::size_t i = 0; i < w.size(); ++i)
    CHECK(grad.at("w")[i] == Approx(plain_grad.at("w")[i] + w[i]).epsilon(1e-12));
  CHECK(grad.at("b") == plain_grad.at("b"));
  // Evaluation has the plain loss.
  const std::vector<double> all = {1, 1};
  CHECK(call(whole, "eval", {x, kLabel, all}, b) == call(plain, "eval", {x, kLabel, all}, a));
  const auto want = call(plain, "step", {x, kLabel}, a), got = call(whole, "step", {x, kLabel}, b);
  CHECK_FALSE(want.contains("plain_loss"));
  CHECK(got.at("plain_loss") == want.at("loss"));
  CHECK(got.at("loss")[0] == Approx(want.at("loss")[0] + 0.5 * length_of(w) * length_of(w)).epsilon(1e-12));
}

TEST_CASE("A term of the loss that is not finite stops the step") {
  ir::Module module = model_with([](Builder& b, Value w, Value) {
    b.result("loss.t", b.unary(Opcode::log, b.mul(sum_of(b, b.mul(w, w)), -1)));
  });
  programs::add_step_program(module, sgd_options(0.1));
  ir::EvalState state = start(module, {{"w", numbers(4, 2)}});
  CHECK(call(module, "step", {numbers(4, 1), kLabel}, state).at("finite")[0] == 0);
  CHECK(state.tensors.at("w").data == numbers(4, 2));
}

TEST_CASE("A next value of a weight that is not finite stops the step, though loss and gradients are") {
  const auto add = [](Builder& b, Value, Value) {
    b.result("update.m", b.unary(Opcode::log, b.mul(b.param("m"), 0)));
  };
  for (const std::int64_t accumulate : {1, 2}) {
    CAPTURE(accumulate);
    ir::Module module = model_with(add);
    programs::add_step_program(module, sgd_options(0.1, accumulate));
    ir::EvalState state = start(module, {{"w", numbers(4, 2)}, {"m", {3}}});
    const char* program = accumulate == 1 ? "step" : "accumulate";
    const auto got = call(module, program, {numbers(4, 1), kLabel}, state);
    CHECK(std::isfinite(got.at("loss")[0]));
    CHECK(got.at("finite")[0] == 0);
    CHECK(state.tensors.at("w").data == numbers(4, 2));
    CHECK(state.tensors.at("m").data == std::vector<double>{3});
  }
}

TEST_CASE("Reports are results of the step and of each batch that is accumulated, and of nothing else") {
  const auto add = [](Builder& b, Value w, Value) { b.result("report.a", sum_of(b, w)); };
  const std::vector<double> x = numbers(4, 1), w = numbers(4, 2);
  const double sum = w[0] + w[1] + w[2] + w[3];
  for (const std::int64_t accumulate : {1, 2}) {
    ir::Module module = model_with(add);
    programs::add_step_program(module, sgd_options(0.1, accumulate));
    programs::add_grad_program(module, {});
    programs::add_eval_program(module);
    ir::verify(module);
    ir::EvalState state = start(module, {{"w", w}});
    const char* program = accumulate == 1 ? "step" : "accumulate";
    CHECK(call(module, program, {x, kLabel}, state).at("report.a")[0] == Approx(sum).epsilon(1e-12));
    CHECK_FALSE(module.function("eval").result("report.a"));
    CHECK_FALSE(module.function("grad").result("report.a"));
  }
}

TEST_CASE("A report or a term of the loss that is no float scalar is refused") {
  for (const char* name : {"report.a", "loss.t"}) {
    ir::Module module = model_with([&](Builder& b, Value w, Value) { b.result(name, w); });
    CHECK(test::message_of<UserError>([&] { programs::add_step_program(module, sgd_options(0.1)); }) ==
          "the model's result '" + std::string(name) + "' is f32[2,2]; it must be a float scalar");
  }
}

TEST_CASE("The progress is 0 in the first step, 1 behind the last, and evaluation has that of the weights") {
  for (const std::int64_t accumulate : {1, 2}) {
    programs::TrainOptions options = sgd_options(0.1, accumulate);
    options.timeline.total_steps = 3;
    ir::Module module = model_with([](Builder& b, Value, Value logits) {
      b.result("report.p", b.param(ir::kProgress));
      b.result("loss.p", b.mul(sum_of(b, logits), b.param(ir::kProgress)));
    });
    programs::add_step_program(module, options);
    programs::add_eval_program(module);
    ir::verify(module);
    ir::EvalState state = start(module, {{"w", numbers(4, 2)}});
    for (int step = 0; step < 4; ++step) {
      CAPTURE(accumulate, step);
      const double share = static_cast<float>(std::min(step / 3.0, 1.0));
      for (int micro = 0; micro < accumulate; ++micro) {
        const char* program = accumulate == 1 ? "step" : "accumulate";
        CHECK(call(module, program, {numbers(4, 1), kLabel}, state).at("report.p")[0] ==
              Approx(share).epsilon(1e-7).margin(0));
      }
      if (accumulate > 1) call(module, "apply", {}, state);
      CHECK(state.tensors.at("train.progress").scalar() ==
            Approx(std::min((step + 1) / 3.0, 1.0)).epsilon(1e-7));
    }
    // A step that is not finite is none.
    const double before = state.tensors.at("train.progress").scalar();
    state.tensors.at("train.step").data[0] = 0;
    const char* program = accumulate == 1 ? "step" : "accumulate";
    call(module, program, {{kNoNumber, 1, 1, 1}, kLabel}, state);
    if (accumulate > 1) call(module, "apply", {}, state);
    CHECK(state.tensors.at("train.progress").scalar() == before);
  }
}

TEST_CASE("A run without an end has the progress of its state") {
  ir::Module module =
      model_with([](Builder& b, Value, Value) { b.result("report.p", b.param(ir::kProgress)); });
  programs::add_step_program(module, sgd_options(0.1));
  ir::EvalState state = start(module, {{"w", numbers(4, 2)}});
  for (int step = 0; step < 2; ++step)
    CHECK(call(module, "step", {numbers(4, 1), kLabel}, state).at("report.p")[0] == 0);
}

TEST_CASE(
    "A weight that forward updates takes its value behind each step, and none of one that is not finite") {
  ir::Module module = model_with_state();
  programs::add_step_program(module, sgd_options(0.1));
  programs::add_grad_program(module, {});
  programs::add_eval_program(module);
  ir::verify(module);
  const std::vector<double> x = numbers(4, 1), w = numbers(4, 2);
  const auto sum_of_logits = [&](const ir::EvalState& state) {
    const std::vector<double>& at = state.tensors.at("w").data;
    const std::vector<double>& b = state.tensors.at("b").data;
    return (x[0] + x[2]) * (at[0] + at[2]) + (x[1] + x[3]) * (at[1] + at[3]) + 2 * (b[0] + b[1]);
  };
  ir::EvalState state = start(module, {{"w", w}, {"m", {3}}});
  for (int step = 0; step < 3; ++step) {
    const double want = state.tensors.at("m").scalar() / 2 + sum_of_logits(state);
    call(module, "step", {x, kLabel}, state);
    CHECK(state.tensors.at("m").scalar() == Approx(want).epsilon(1e-12));
  }
  const double before = state.tensors.at("m").scalar();
  call(module, "eval", {x, kLabel, {1, 1}}, state);
  call(module, "grad", {x, kLabel}, state);
  CHECK(state.tensors.at("m").scalar() == before);
  CHECK(call(module, "step", {{kNoNumber, 1, 1, 1}, kLabel}, state).at("finite")[0] == 0);
  CHECK(state.tensors.at("m").scalar() == before);
}

TEST_CASE(
    "Batches that are accumulated update such a weight one after the other, once all of them are finite") {
  ir::Module module = model_with_state();
  programs::add_step_program(module, sgd_options(0.1, 2));
  ir::verify(module);
  const std::vector<double> w = numbers(4, 2), zero(4, 0);
  ir::EvalState state = start(module, {{"w", w}, {"b", {1, 2}}, {"m", {8}}});
  // Of images of zeros the logits are b: their sum is 6 as long as b has not been trained.
  const auto accumulate = [&](const std::vector<double>& x) {
    call(module, "accumulate", {x, kLabel}, state);
  };
  accumulate(zero);
  CHECK(state.tensors.at("m").scalar() == 8);
  accumulate(zero);
  CHECK(state.tensors.at("m").scalar() == 8);
  call(module, "apply", {}, state);
  CHECK(state.tensors.at("m").scalar() == (8 / 2 + 6) / 2.0 + 6);
  accumulate(zero);
  accumulate({kNoNumber, 1, 1, 1});
  call(module, "apply", {}, state);
  CHECK(state.tensors.at("m").scalar() == 11);
}

TEST_CASE("Behind every update a constrained weight is the function of the optimizer's value") {
  const std::vector<double> x = numbers(4, 1), w = numbers(4, 2);
  for (const char* optimizer : {"sgd", "adamw"}) {
    for (const std::int64_t accumulate : {1, 2}) {
      CAPTURE(optimizer, accumulate);
      programs::TrainOptions options = sgd_options(0.1, accumulate);
      options.optimizer.name = optimizer;
      const auto after_a_step = [&](ir::Module module) {
        programs::add_step_program(module, options);
        ir::verify(module);
        ir::EvalState state = start(module, {{"w", w}});
        for (int micro = 0; micro < accumulate; ++micro)
          call(module, accumulate == 1 ? "step" : "accumulate", {x, kLabel}, state);
        if (accumulate > 1) call(module, "apply", {}, state);
        return state;
      };
      const ir::EvalState plain = after_a_step(linear_model(2, 2, 2));
      const ir::EvalState constrained = after_a_step(model_with_constraint());
      const std::vector<double>& free = plain.tensors.at("w").data;
      for (std::size_t i = 0; i < free.size(); ++i)
        CHECK(constrained.tensors.at("w").data[i] == Approx(free[i] / length_of(free)).epsilon(1e-12));
      CHECK(constrained.tensors.at("b").data == plain.tensors.at("b").data);
    }
  }
}

TEST_CASE("A step that is not finite leaves a constrained weight as it was") {
  ir::Module module = model_with_constraint();
  programs::add_step_program(module, sgd_options(0.1));
  ir::EvalState state = start(module, {{"w", numbers(4, 2)}});
  call(module, "step", {{kNoNumber, 1, 1, 1}, kLabel}, state);
  CHECK(state.tensors.at("w").data == numbers(4, 2));
}

TEST_CASE("In bf16 a constraint stays in f32") {
  ir::Module module = model_with([](Builder& b, Value w, Value) {
    b.set_location("constraint");
    b.result("after_step.w", b.matmul(b.matmul(w, w, false, true), w));
  });
  ir::mixed_precision(module, module.function("forward"), {DType::bf16});
  ir::verify(module);
  bool narrow_elsewhere = false;
  const ir::Function& forward = module.function("forward");
  for (const ir::Op& op : forward.body) {
    for (const Value result : op.results) {
      const bool narrow = forward.type(result).dtype == DType::bf16;
      CHECK_FALSE((narrow && op.location == "constraint"));
      narrow_elsewhere = narrow_elsewhere || narrow;
    }
  }
  CHECK(narrow_elsewhere);
  programs::add_step_program(module, sgd_options(0.1));
  ir::verify(module);
}

TEST_CASE("A constraint of no weight that trains, or of the image, is refused") {
  const auto refused = [](ir::Module module) {
    return test::message_of<UserError>([&] { programs::add_step_program(module, sgd_options(0.1)); });
  };
  CHECK(refused(model_with([](Builder& b, Value, Value) { b.result("after_step.m", b.param("m")); })) ==
        "the model's result 'after_step.m' does not name a trainable weight");
  CHECK(refused(model_with([](Builder& b, Value w, Value logits) {
          b.result("after_step.w", b.add(w, logits));
        })) == "the model's result 'after_step.w' depends on 'image'; it must be a function of weights");
}

}  // namespace
}  // namespace rewire::runtime
