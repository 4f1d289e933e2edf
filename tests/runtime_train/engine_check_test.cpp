// The check of an engine passes where it computes what the evaluator does, and names what it gets wrong.
#include "runtime/verify/engine_check.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/builder.h"
#include "ir/opcodes.h"
#include "ir/passes/mixed_precision.h"
#include "programs/programs.h"
#include "tests/runtime_train/linear_model.h"
#include "tests/support/catch.h"

namespace rewire::runtime {
namespace {

constexpr std::uint64_t kSeed = 11;

ir::Module model_with_grad() {
  ir::Module module = linear_model(3, 5, 4, 0.25);
  for (ir::Parameter& parameter : module.parameters) {
    if (parameter.trainable) parameter.role = "head";
  }
  programs::add_grad_program(module, {});
  return module;
}

/// The evaluator with the first element of one result changed.
class Wrong final : public Engine {
 public:
  Wrong(const ir::Module& module, std::string program, std::string result, float factor)
      : engine_(make_evaluator_engine(module)),
        program_(std::move(program)),
        result_(std::move(result)),
        factor_(factor) {}
  void write_state(std::string_view name, const HostTensor& value) override {
    engine_->write_state(name, value);
  }
  HostTensor read_state(std::string_view name) const override { return engine_->read_state(name); }
  TensorMap run(std::string_view function, const TensorMap& inputs) override {
    TensorMap results = engine_->run(function, inputs);
    if (function == program_) {
      // A multiple of the norm, so that the relative error of the tensor is the factor.
      double square = 0;
      for (const float value : results.at(result_).as<float>()) square += static_cast<double>(value) * value;
      results.at(result_).as<float>()[0] += factor_ * static_cast<float>(std::sqrt(square));
    }
    return results;
  }
  void prepare(std::string_view function) override { engine_->prepare(function); }

 private:
  std::unique_ptr<Engine> engine_;
  std::string program_, result_;
  float factor_;
};

TEST_CASE("An engine that computes what the evaluator does passes the check, a row an output and a role") {
  const ir::Module module = model_with_grad();
  const std::unique_ptr<Engine> evaluator = make_evaluator_engine(module);
  const std::unique_ptr<Engine> jit = make_jit_engine(module);
  const EngineCheck check = check_engine(*jit, *evaluator, module, {}, kSeed);
  REQUIRE(check.rows.size() == 3);
  CHECK(check.rows[0].what == "logits");
  CHECK(check.rows[0].elements == 12);
  CHECK(check.rows[1].what == "loss");
  CHECK(check.rows[2].what == "head");
  CHECK(check.rows[2].elements == 24);
  CHECK(check.rows[2].error > 0);  // f32 against double
  CHECK(check.passed());
}

TEST_CASE("An engine that is off by more than the tolerance fails, and the worst tensor is named") {
  const ir::Module module = model_with_grad();
  const std::unique_ptr<Engine> evaluator = make_evaluator_engine(module);
  const auto checked = [&](const char* program, const char* result, float factor) {
    Wrong wrong(module, program, result, factor);
    return check_engine(wrong, *evaluator, module, {}, kSeed);
  };
  CHECK(checked("forward", "logits", 5e-6F).passed());
  CHECK_FALSE(checked("forward", "logits", 2e-5F).rows[0].passed());
  CHECK_FALSE(checked("grad", "loss", 2e-5F).rows[1].passed());
  CHECK(checked("grad", "b", 5e-5F).passed());
  for (const char* weight : {"w", "b"}) {
    CAPTURE(weight);
    const EngineCheck check = checked("grad", weight, 2e-4F);
    CHECK_FALSE(check.passed());
    CHECK(check.rows[0].passed());
    CHECK(check.rows[2].worst == weight);
    CHECK(check.rows[2].error == Approx(2e-4).epsilon(0.01));
    CHECK_FALSE(checked("grad", weight, std::numeric_limits<float>::quiet_NaN()).rows[2].passed());
  }
}

TEST_CASE("In bf16 an engine may be off by twice what rounding costs and one rounding, and by no more") {
  ir::Module module = linear_model(3, 5, 4);
  ir::mixed_precision(module, module.function("forward"), {});
  programs::add_grad_program(module, {});
  CHECK(has_narrow_values(module));
  CHECK_FALSE(has_narrow_values(model_with_grad()));
  const std::unique_ptr<Engine> evaluator = make_evaluator_engine(module);
  const std::unique_ptr<Engine> rounded = make_evaluator_engine(module, Rounding::dtypes);
  const std::unique_ptr<Engine> jit = make_jit_engine(module);
  const EngineCheck check = check_engine(*jit, *evaluator, module, {}, kSeed);
  CHECK(check.passed());
  CHECK(check.rows[0].error > 1e-5);  // it is bf16
  CHECK(check.rows[0].bound == "rounding");
  // Rounding itself is the yardstick: e <= 1e-5 + 2 e + 2^-9.
  const EngineCheck own = check_engine(*rounded, *evaluator, module, {}, kSeed);
  CHECK(own.rows[0].tolerance == Approx(kEngineOutputTolerance + 2 * own.rows[0].error + 0x1p-9));
  Wrong wrong(module, "forward", "logits", 0.5F);
  CHECK_FALSE(check_engine(wrong, *evaluator, module, {}, kSeed).rows[0].passed());
}

/// logits = norm(a x) W^T: the norm takes a out again, so that its gradient is a sum of terms that cancel.
ir::Module cancelling_model() {
  ir::Module module = linear_model(3, 5, 4);
  module.functions.clear();
  ir::Parameter a;
  a.name = "a";
  a.type = {ir::DType::f32, {1}};
  a.init = {ir::InitKind::ones};
  a.role = "join";
  module.add_parameter(a);
  ir::Function forward;
  forward.name = "forward";
  ir::Builder b(module, forward);
  const ir::Value image = b.argument("image", {ir::DType::f32, {3, 1, 1, 5}});
  const ir::Value x = b.mul(b.reshape(image, {3, 5}), b.param("a"));
  const ir::Value normal = b.emit(ir::Opcode::layer_norm, {x}, {{"epsilon", 1e-6}});
  b.result("logits", b.linear(normal, b.param("w"), b.param("b")));
  module.functions.push_back(std::move(forward));
  programs::add_grad_program(module, {});
  return module;
}

TEST_CASE("A gradient whose terms nearly cancel is held to what rounding leaves of it, the others are not") {
  const ir::Module module = cancelling_model();
  const std::unique_ptr<Engine> evaluator = make_evaluator_engine(module);
  const std::unique_ptr<Engine> jit = make_jit_engine(module);
  const auto row_of = [](const EngineCheck& check, const char* what) {
    return *std::ranges::find(check.rows, what, &EngineCheckRow::what);
  };
  const EngineCheck check = check_engine(*jit, *evaluator, module, {}, kSeed);
  CHECK(check.passed());
  CHECK(row_of(check, "join").error > kEngineGradientTolerance);
  CHECK(row_of(check, "join").bound == "cancellation");
  CHECK(row_of(check, "loss").bound == "fixed");

  Wrong other(module, "grad", "w", 2e-4F);
  CHECK_FALSE(check_engine(other, *evaluator, module, {}, kSeed).passed());
  Wrong same(module, "grad", "a", 1e3F);
  CHECK_FALSE(check_engine(same, *evaluator, module, {}, kSeed).passed());
}

TEST_CASE("Noise that leads out of an op's domain allows nothing") {
  // d/db of sqrt(sum x^2 - x x): 0 in exact arithmetic, and below 0 where anything is rounded.
  ir::Module module = linear_model(3, 5, 4);
  ir::Function& forward = module.function("forward");
  ir::Builder b(module, forward);
  const ir::Value logits = forward.result("logits");
  const ir::Value square = b.mul(logits, logits);
  const ir::Value nothing = b.unary(ir::Opcode::sqrt, b.sub(b.sum(square, {0, 1}), b.sum(square, {1, 0})));
  forward.results.front().value = b.add(logits, b.mul(nothing, 0.0));
  for (ir::Parameter& parameter : module.parameters) parameter.role = "head";
  programs::add_grad_program(module, {});
  const std::unique_ptr<Engine> evaluator = make_evaluator_engine(module);
  Wrong wrong(module, "forward", "logits", 1e-3F);
  CHECK_FALSE(check_engine(wrong, *evaluator, module, {}, kSeed).rows[0].passed());
}

HostTensor floats_of(const std::vector<float>& values) {
  HostTensor tensor({ir::DType::f32, {static_cast<std::int64_t>(values.size())}});
  std::ranges::copy(values, tensor.as<float>().begin());
  return tensor;
}

TEST_CASE("What is not finite in both is left out of an error, and hides none") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float nan = std::nanf("");
  const auto error = [](const std::vector<float>& actual, const std::vector<float>& expected) {
    return finite_error(floats_of(actual), floats_of(expected), 0);
  };
  CHECK(error({1, 2, kInfinity, nan}, {1, 2, kInfinity, nan}) == 0);
  CHECK(error({2, 4, kInfinity}, {1, 2, kInfinity}) == Approx(1));
  CHECK(error({0, 0}, {0, 0}) == 0);
  CHECK(std::isinf(error({1, 2}, {1, nan})));
  CHECK(std::isinf(error({1, kInfinity}, {1, 2})));
  CHECK(std::isinf(error({1, kInfinity}, {1, -kInfinity})));
  CHECK(std::isinf(error({1, kInfinity}, {1, nan})));
  CHECK(std::isinf(error({1, 2}, {1, 2, 3})));
}

}  // namespace
}  // namespace rewire::runtime
