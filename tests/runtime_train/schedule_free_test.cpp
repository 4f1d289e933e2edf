// An optimizer that evaluates averages and trains elsewhere, which Rewire has not got: Schedule-Free SGD (Defazio et al., NeurIPS
// 2024, equations 7 to 9): y = (1 - beta) z + beta x, z' = z - lr g(y), x' = (1 - 1/t) x + z'/t. The weights are x.
#include <cmath>

#include "programs/optimizer.h"
#include "programs/programs.h"
#include "runtime/network/initialise.h"
#include "tests/runtime_train/linear_model.h"
#include "tests/runtime_train/stopped_run.h"

namespace rewire::programs {
namespace {

using ir::Builder;
using ir::Value;

class ScheduleFree final : public Optimizer {
 public:
  explicit ScheduleFree(double beta) : beta_(beta) {}
  std::vector<StateSpec> states(const ir::Parameter& weight) const override {
    return {{.role = "z", .type = weight.type, .starts_as_weight = true}};
  }
  bool has_training_point() const override { return true; }
  Value training_point(Builder& b, const Trainable& w, const std::vector<Value>& states) override {
    return b.add(b.mul(states[0], 1 - beta_), b.mul(w.value, beta_));
  }
  void begin(Builder&, const std::vector<Trainable>&, const StepScalars& step) override {
    scalars_.begin(step);
  }
  Updated update(Builder& b, const Trainable& w, const std::vector<Value>& states) override {
    const Value z = b.sub(states[0], b.mul(w.gradient, scalars_.rate(b, {1, 0})));
    const Value share = b.cast(b.div(b.constant(1, ir::DType::f64), scalars_.count(b, w)), ir::DType::f32);
    return {b.add(w.value, b.mul(b.sub(z, w.value), share)), {z}};
  }

 private:
  double beta_;
  SharedScalars scalars_;
};

const OptimizerRow kScheduleFree{
    "schedule_free_sgd", "averages without a schedule",
    with_common_parameters({ir::float_parameter("sf_beta", 0.9, "the share of x in y")}),
    [](const ir::Attributes& values) -> std::unique_ptr<Optimizer> {
      return std::make_unique<ScheduleFree>(values.get_double("sf_beta"));
    }};

}  // namespace
}  // namespace rewire::programs

namespace rewire::runtime {
namespace {

void add_schedule_free() {
  static const bool added = [] {
    programs::add_optimizer(programs::kScheduleFree);
    return true;
  }();
  static_cast<void>(added);
}

/// Loss and gradients of the linear classifier at w [2, 3], b [2], for image [2, 3] and labels.
std::vector<double> gradient_at(const std::vector<double>& weights, const std::vector<double>& image,
                                const std::vector<double>& labels) {
  std::vector<double> gradient(8, 0);
  for (std::size_t sample = 0; sample < 2; ++sample) {
    double logits[2], sum = 0;
    for (std::size_t k = 0; k < 2; ++k) {
      logits[k] = weights[6 + k];
      for (std::size_t i = 0; i < 3; ++i) logits[k] += weights[3 * k + i] * image[3 * sample + i];
    }
    for (const double logit : logits) sum += std::exp(logit);
    for (std::size_t k = 0; k < 2; ++k) {
      const double error =
          (std::exp(logits[k]) / sum - (labels[sample] == static_cast<double>(k) ? 1 : 0)) / 2;
      for (std::size_t i = 0; i < 3; ++i) gradient[3 * k + i] += error * image[3 * sample + i];
      gradient[6 + k] += error;
    }
  }
  return gradient;
}

TEST_CASE("Schedule-Free trains at y and keeps x: the equations step by step, whole and in micro-batches") {
  add_schedule_free();
  for (const std::int64_t accumulate : {1, 2}) {
    CAPTURE(accumulate);
    ir::Module module = linear_model(2, 3, 2);
    programs::TrainOptions options;
    options.optimizer = {"schedule_free_sgd"};
    options.optimizer.set("lr", 0.3).set("weight_decay", 0.0);
    options.accumulate = accumulate;
    options.timeline.total_steps = 10;
    programs::add_step_program(module, options);
    std::vector<double> x = numbers(8, 3), z = x;
    ir::EvalState state = start(module, {{"w", {x.begin(), x.begin() + 6}}, {"b", {x.begin() + 6, x.end()}}});
    for (int step = 1; step <= 4; ++step) {
      std::vector<double> y(8), gradient(8, 0);
      for (std::size_t i = 0; i < 8; ++i) y[i] = 0.1 * z[i] + 0.9 * x[i];
      for (std::int64_t micro = 0; micro < accumulate; ++micro) {
        const std::vector<double> image = numbers(6, 10 * step + static_cast<int>(micro)), labels = {1, 0};
        const std::vector<double> one = gradient_at(y, image, labels);
        for (std::size_t i = 0; i < 8; ++i) gradient[i] += one[i] / static_cast<double>(accumulate);
        call(module, accumulate == 1 ? "step" : "accumulate", {image, labels}, state);
      }
      if (accumulate > 1) call(module, "apply", {}, state);
      for (std::size_t i = 0; i < 8; ++i) {
        z[i] -= 0.3 * gradient[i];
        x[i] += (z[i] - x[i]) / step;
      }
      const std::vector<double>&w = state.tensors.at("w").data, &b = state.tensors.at("b").data;
      for (std::size_t i = 0; i < 8; ++i) CHECK((i < 6 ? w[i] : b[i - 6]) == Approx(x[i]).epsilon(1e-6));
      CHECK(state.tensors.at("schedule_free_sgd.z.b").data[1] == Approx(z[7]).epsilon(1e-6));
    }
  }
}

TEST_CASE(
    "Schedule-Free runs resume to the bit, from behind the first step too, and evaluate what they write") {
  add_schedule_free();
  TrainRequest request;
  request.recipe = parse_recipe(R"(
[data]
format = "synthetic"
count = 64
[optimizer]
name = "schedule_free_sgd"
lr = 0.5
[train]
batch = 8
epochs = 3
[eval]
batch = 16
)",
                                "test.toml");
  request.engine = engine_names().front();
  request.choices.autotune = false;
  request.network.forward = [](std::int64_t batch) { return linear_model(batch, 9, 4); };
  check_resumes(request, 1);
  const TrainResult result = check_resumes(request, 11);
  REQUIRE(result.evaluation.has_value());
  CHECK(result.evaluation->loss() < 1.2);  // chance is ln 4 = 1.386
}

}  // namespace
}  // namespace rewire::runtime
