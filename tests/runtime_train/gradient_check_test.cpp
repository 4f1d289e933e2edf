// The gradient check passes on what autodiff makes and fails on a gradient that is wrong.
#include "runtime/verify/gradient_check.h"

#include "ir/builder.h"
#include "ir/opcodes.h"
#include "programs/programs.h"
#include "tests/runtime_train/linear_model.h"
#include "tests/support/catch.h"

namespace rewire::runtime {
namespace {

constexpr std::uint64_t kDraws = 5;

ir::Module model_with_grad(double dropout) {
  ir::Module module = linear_model(3, 5, 4, dropout);
  for (ir::Parameter& parameter : module.parameters) {
    if (parameter.trainable) parameter.role = parameter.name;
  }
  programs::TrainOptions options;
  options.objective.set("label_smoothing", 0.1);
  programs::add_grad_program(module, options);
  return module;
}

TEST_CASE("The gradients that autodiff makes pass the check, one row a role and direction") {
  for (const double dropout : {0.0, 0.5}) {
    CAPTURE(dropout);
    const GradientCheck check = check_gradients(model_with_grad(dropout), {}, kDraws, 2);
    REQUIRE(check.rows.size() == 4);
    CHECK(check.rows[0].role == "w");
    CHECK(check.rows[0].weights == 20);
    CHECK(check.rows[2].role == "b");
    CHECK(check.rows[2].weights == 4);
    CHECK(check.rows[0].gradient != check.rows[1].gradient);
    CHECK(check.loss > 0);
    CHECK(check.passed());
  }
}

TEST_CASE("A gradient that is off by one part in ten thousand fails the check, and only its row") {
  ir::Module module = model_with_grad(0);
  ir::Function& grad = module.function("grad");
  ir::Builder builder(module, grad);
  for (ir::Argument& result : grad.results) {
    if (result.name == "b") result.value = builder.mul(result.value, 1.0001);
  }
  const GradientCheck check = check_gradients(module, {}, kDraws, 1);
  REQUIRE(check.rows.size() == 2);
  CHECK(check.rows[0].passed);
  CHECK_FALSE(check.rows[1].passed);
  CHECK(check.rows[1].error == Approx(1e-4).epsilon(0.01));
  CHECK_FALSE(check.passed());
}

/// logits = f + 0.5 stop_gradient(f); f = image W^T + b.
ir::Module model_with_cut() {
  ir::Module module = linear_model(3, 5, 4, 0);
  for (ir::Parameter& parameter : module.parameters) {
    if (parameter.trainable) parameter.role = parameter.name;
  }
  ir::Function& forward = module.function("forward");
  ir::Builder builder(module, forward);
  builder.set_location("gate");
  ir::Value& logits = forward.results.front().value;
  logits = builder.add(logits, builder.mul(builder.unary(ir::Opcode::stop_gradient, logits), 0.5));
  programs::add_grad_program(module, {});
  return module;
}

TEST_CASE("What stop_gradient cuts is held fixed in the differences, and the cut is named") {
  const ir::Module module = model_with_cut();
  const GradientCheck check = check_gradients(module, {}, kDraws, 1);
  REQUIRE(check.rows.size() == 2);
  CHECK(check.passed());
  const std::vector<std::string> cuts = gradient_cuts(module);
  REQUIRE(cuts.size() == 1);
  CHECK(cuts.front().starts_with("gate, of add"));
  CHECK(gradient_cuts(model_with_grad(0)).empty());
}

TEST_CASE("Beside a cut, a gradient that is wrong still fails") {
  ir::Module module = model_with_cut();
  ir::Function& grad = module.function("grad");
  ir::Builder builder(module, grad);
  for (ir::Argument& result : grad.results) {
    if (result.name == "w") result.value = builder.mul(result.value, 1.0001);
  }
  const GradientCheck check = check_gradients(module, {}, kDraws, 1);
  CHECK_FALSE(check.rows[0].passed);
  CHECK(check.rows[1].passed);
}

}  // namespace
}  // namespace rewire::runtime
