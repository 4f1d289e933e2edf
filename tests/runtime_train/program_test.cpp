// The programs on models small enough to follow by hand; tests/parity holds the real ones to PyTorch.
#include "programs/programs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/verify.h"
#include "tests/runtime_train/linear_model.h"
#include "tests/support/catch.h"

namespace rewire::runtime {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

programs::TrainOptions plain_sgd(double lr) {
  programs::TrainOptions options;
  options.optimizer = {"sgd"};
  options.optimizer.set("lr", lr).set("momentum", 0.0).set("weight_decay", 0.0);
  return options;
}

double norm(const std::vector<double>& a) {
  double sum = 0;
  for (double x : a) sum += x * x;
  return std::sqrt(sum);
}

void check_close(const std::vector<double>& got, const std::vector<double>& want, double epsilon = 1e-12) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(got[i] == Approx(want[i]).epsilon(epsilon).margin(epsilon));
  }
}

TEST_CASE("Every program verifies and names its results") {
  ir::Module module = linear_model(3, 4, 2);
  programs::add_grad_program(module, {});
  programs::add_step_program(module, {});
  programs::add_eval_program(module);
  CHECK_NOTHROW(ir::verify(module));
  auto results = [&](const char* name) {
    std::vector<std::string> names;
    for (const ir::Argument& result : module.function(name).results) names.push_back(result.name);
    return names;
  };
  CHECK(results("grad") == std::vector<std::string>{"loss", "w", "b"});
  CHECK(results("step") == std::vector<std::string>{"loss", "correct1", "grad_norm", "finite", "lr"});
  // Of two classes the right one is always among the first five.
  CHECK(results("eval") == std::vector<std::string>{"loss_sum", "correct1", "count"});
  CHECK(module.function("grad").trains);
  CHECK(module.function("step").trains);
  CHECK_FALSE(module.function("eval").trains);
}

TEST_CASE("The gradient of softmax regression is (p - y) x^T / B, smoothed or not") {
  constexpr std::int64_t kBatch = 3, kInputs = 4, kClasses = 5;
  const std::vector<double> x = numbers(kBatch * kInputs, 1), w = numbers(kClasses * kInputs, 2),
                            b = numbers(kClasses, 3), label = {4, 0, 2};
  for (double smoothing : {0.0, 0.2}) {
    programs::TrainOptions options;
    options.objective.set("label_smoothing", smoothing);
    ir::Module module = linear_model(kBatch, kInputs, kClasses);
    programs::add_grad_program(module, options);
    ir::EvalState state = start(module, {{"w", w}, {"b", b}});
    const auto got = call(module, "grad", {x, label}, state);

    double loss = 0;
    std::vector<double> dw(w.size()), db(b.size());
    for (std::size_t n = 0; n < kBatch; ++n) {
      std::vector<double> logit = b;
      double total = 0;
      for (std::size_t k = 0; k < kClasses; ++k) {
        for (std::size_t i = 0; i < kInputs; ++i) logit[k] += w[k * kInputs + i] * x[n * kInputs + i];
        total += std::exp(logit[k]);
      }
      for (std::size_t k = 0; k < kClasses; ++k) {
        const double target = smoothing / kClasses + (label[n] == static_cast<double>(k) ? 1 - smoothing : 0);
        loss -= target * (logit[k] - std::log(total)) / kBatch;
        const double d = (std::exp(logit[k]) / total - target) / kBatch;
        db[k] += d;
        for (std::size_t i = 0; i < kInputs; ++i) dw[k * kInputs + i] += d * x[n * kInputs + i];
      }
    }
    check_close(got.at("loss"), {loss});
    check_close(got.at("w"), dw);
    check_close(got.at("b"), db);
  }
}

TEST_CASE("Against probabilities the gradient of softmax regression is (p - t) x^T / B, smoothed or not") {
  constexpr std::int64_t kBatch = 3, kInputs = 4, kClasses = 5;
  const std::vector<double> x = numbers(kBatch * kInputs, 1), w = numbers(kClasses * kInputs, 2),
                            b = numbers(kClasses, 3);
  std::vector<double> target = numbers(kBatch * kClasses, 4);
  for (double& t : target) t = std::abs(t);
  for (double smoothing : {0.0, 0.2}) {
    programs::TrainOptions options;
    options.objective.set("label_smoothing", smoothing).set("targets", std::string("probabilities"));
    ir::Module module = linear_model(kBatch, kInputs, kClasses);
    programs::add_grad_program(module, options);
    ir::EvalState state = start(module, {{"w", w}, {"b", b}});
    const auto got = call(module, "grad", {x, target}, state);

    double loss = 0;
    std::vector<double> db(b.size());
    for (std::size_t n = 0; n < kBatch; ++n) {
      std::vector<double> logit = b;
      double total = 0, mass = 0;
      const auto smoothed = [&](std::size_t k) {
        return (1 - smoothing) * target[n * kClasses + k] + smoothing / kClasses;
      };
      for (std::size_t k = 0; k < kClasses; ++k) {
        for (std::size_t i = 0; i < kInputs; ++i) logit[k] += w[k * kInputs + i] * x[n * kInputs + i];
        total += std::exp(logit[k]);
        mass += smoothed(k);
      }
      for (std::size_t k = 0; k < kClasses; ++k) {
        loss -= smoothed(k) * (logit[k] - std::log(total)) / kBatch;
        db[k] += (mass * std::exp(logit[k]) / total - smoothed(k)) / kBatch;
      }
    }
    check_close(got.at("loss"), {loss});
    check_close(got.at("b"), db);
  }
}

TEST_CASE("The loss of mixed targets is timm's SoftTargetCrossEntropy of its mixup_target") {
  const std::vector<double> logits = {0.5, -1.25, 2.0, 0.75, 1.5, 0.25, -0.5, 3.0, -2.0, 0.0, 1.0, 0.5};
  // Labels 2, 0, 3, each mixed with that of the batch reversed, at a share of 0.3.
  const std::vector<double> target = {0, 0, 0.3, 0.7, 1, 0, 0, 0, 0, 0, 0.7, 0.3};
  std::vector<double> identity(16);
  for (std::size_t k = 0; k < 4; ++k) identity[5 * k] = 1;
  programs::TrainOptions options;
  options.objective.set("label_smoothing", 0.1).set("targets", std::string("probabilities"));
  ir::Module module = linear_model(3, 4, 4);
  programs::add_grad_program(module, options);
  ir::EvalState state = start(module, {{"w", identity}});
  check_close(call(module, "grad", {logits, target}, state).at("loss"), {1.3822338513693762});
}

TEST_CASE("A class at minus infinity that has no probability costs nothing, as with labels") {
  const double kNever = -std::numeric_limits<double>::infinity();
  ir::Module module = identity_model(2, 3), of_labels = identity_model(2, 3);
  ir::Selection objective{"supervised"};
  objective.set("targets", std::string("probabilities"));
  programs::add_eval_program(module, objective);
  programs::add_eval_program(of_labels);
  ir::EvalState state = start(module, {}), other = start(of_labels, {});
  const std::vector<double> logits = {0.5, kNever, 2, kNever, 1, 0};
  const double loss = call(module, "eval", {logits, {0, 0, 1, 0, 1, 0}, {1, 1}}, state).at("loss_sum")[0];
  CHECK(loss == Approx(call(of_labels, "eval", {logits, {2, 1}, {1, 1}}, other).at("loss_sum")[0]));
}

TEST_CASE("Evaluation against probabilities counts hits of the most probable class, the first of a tie") {
  ir::Module module = identity_model(4, 3);
  programs::TrainOptions options;
  ir::Selection objective{"supervised"};
  objective.set("targets", std::string("probabilities"));
  programs::add_eval_program(module, objective);
  ir::EvalState state = start(module, {});
  const std::vector<double> logits = {3, 1, 0, 0, 2, 1, 0, 0, 5, 1, 2, 3},
                            target = {0.9, 0.1, 0, 0.4, 0.2, 0.4, 0, 0.5, 0.5, 0, 0, 1},
                            weight = {1, 1, 1, 0};
  const auto got = call(module, "eval", {logits, target, weight}, state);
  CHECK(got.at("count")[0] == 3);
  CHECK(got.at("correct1")[0] == 1);
  CHECK_FALSE(got.contains("correct5"));
}

TEST_CASE("Where only present classes compete, the others have no probability and never win") {
  ir::Module whole = identity_model(3, 4), some = identity_model(3, 4), few = identity_model(3, 2);
  programs::add_eval_program(whole);
  programs::add_eval_program(some, {"supervised"}, 2);
  programs::add_eval_program(few);
  ir::EvalState of_whole = start(whole, {}), of_some = start(some, {}), of_few = start(few, {});
  // The third sample fills up the batch: its label is of no class that is present.
  const std::vector<double> logits = {0.5, 9, 2, 1, 3, 8, 1, 0, 0, 0, 0, 0}, label = {2, 2, 1},
                            weight = {1, 1, 0};
  const auto got = call(some, "eval", {logits, label, weight, {1, 0, 1, 0}}, of_some);
  const auto alone = call(few, "eval", {{0.5, 2, 3, 1, 0, 0}, {1, 1, 0}, weight}, of_few);
  CHECK(got.at("correct1")[0] == 1);
  CHECK(got.at("loss_sum")[0] == Approx(alone.at("loss_sum")[0]).epsilon(1e-12));
  const auto all = call(some, "eval", {logits, label, weight, {1, 1, 1, 1}}, of_some);
  CHECK(all.at("loss_sum") == call(whole, "eval", {logits, label, weight}, of_whole).at("loss_sum"));
  CHECK(all.at("correct1")[0] == 0);
}

TEST_CASE("An evaluation has top-5 where more than five classes compete") {
  for (const std::int64_t competing : {0, 5, 6}) {
    CAPTURE(competing);
    ir::Module module = identity_model(2, 9);
    const programs::Metrics metrics = programs::add_eval_program(module, {"supervised"}, competing);
    CHECK((std::ranges::find(metrics, "top5", &programs::Metric::name) != metrics.end()) == (competing != 5));
  }
}

TEST_CASE("Top-5 is told of six classes or more") {
  for (const std::int64_t classes : {5, 6}) {
    ir::Module module = identity_model(2, classes);
    const programs::Metrics metrics = programs::add_eval_program(module);
    CHECK((std::ranges::find(metrics, "top5", &programs::Metric::name) != metrics.end()) == (classes == 6));
  }
}

TEST_CASE("A weight that the model reads twice gets the sum of both gradients") {
  ir::Module module = linear_model(2, 3, 3);
  {  // logits = (x W^T) W^T instead
    ir::Function& forward = module.function("forward");
    forward = {};
    forward.name = "forward";
    ir::Builder b(module, forward);
    ir::Value x = b.argument("image", {ir::DType::f32, {2, 3}});
    ir::Value once = b.linear(x, b.param("w"));
    b.result("logits", b.linear(once, b.param("w")));
  }
  programs::add_grad_program(module, {});
  const std::vector<double> x = numbers(6, 1), w = numbers(9, 2), label = {1, 2};
  auto loss_at = [&](const std::vector<double>& weights) {
    ir::EvalState state = start(module, {{"w", weights}});
    return call(module, "grad", {x, label}, state);
  };
  const auto got = loss_at(w);
  CHECK(got.count("b") == 0);  // forward does not read it
  const double h = 1e-5;
  for (std::size_t i = 0; i < w.size(); ++i) {
    std::vector<double> up = w, down = w;
    up[i] += h;
    down[i] -= h;
    const double difference = (loss_at(up).at("loss")[0] - loss_at(down).at("loss")[0]) / (2 * h);
    CHECK(got.at("w")[i] == Approx(difference).epsilon(1e-7).margin(1e-9));
  }
}

TEST_CASE("A step moves by minus the rate times the gradient, counts hits and advances the step") {
  ir::Module module = linear_model(4, 3, 3);
  programs::add_grad_program(module, {});
  programs::add_step_program(module, plain_sgd(0.5));
  const std::vector<double> x = numbers(12, 1), w = numbers(9, 2), b = numbers(3, 3), label = {0, 1, 2, 1};
  ir::EvalState state = start(module, {{"w", w}, {"b", b}});
  const auto gradient = call(module, "grad", {x, label}, state);
  const auto got = call(module, "step", {x, label}, state);
  std::vector<double> moved = w, both = gradient.at("w");
  for (std::size_t i = 0; i < w.size(); ++i) moved[i] -= 0.5 * gradient.at("w")[i];
  both.insert(both.end(), gradient.at("b").begin(), gradient.at("b").end());
  check_close(state.tensors.at("w").data, moved);
  check_close(got.at("loss"), gradient.at("loss"));
  check_close(got.at("grad_norm"), {norm(both)});
  CHECK(got.at("lr")[0] == 0.5);
  CHECK(got.at("finite")[0] == 1);
  CHECK(state.tensors.at("train.step").scalar() == 1);
  double hits = 0;
  for (std::size_t n = 0; n < 4; ++n) {
    std::vector<double> logit = b;
    for (std::size_t k = 0; k < 3; ++k) {
      for (std::size_t i = 0; i < 3; ++i) logit[k] += w[k * 3 + i] * x[n * 3 + i];
    }
    hits +=
        std::max_element(logit.begin(), logit.end()) - logit.begin() == static_cast<std::ptrdiff_t>(label[n]);
  }
  CHECK(got.at("correct1")[0] == hits);
}

TEST_CASE("Clipping scales the gradient to the limit when it is longer, and leaves it when not") {
  const std::vector<double> x = numbers(12, 1), w = numbers(9, 2), label = {0, 1, 2, 1};
  auto step_length = [&](double limit, double& grad_norm) {
    programs::TrainOptions options = plain_sgd(1.0);
    options.clip_norm = limit;
    ir::Module module = linear_model(4, 3, 3);
    programs::add_step_program(module, options);
    ir::EvalState state = start(module, {{"w", w}});
    grad_norm = call(module, "step", {x, label}, state).at("grad_norm")[0];
    std::vector<double> delta = state.tensors.at("b").data;
    for (std::size_t i = 0; i < w.size(); ++i) delta.push_back(state.tensors.at("w").data[i] - w[i]);
    return norm(delta);
  };
  double unclipped = 0, reported = 0;
  const double full = step_length(0, unclipped);
  CHECK(full == Approx(unclipped).epsilon(1e-12));
  CHECK(step_length(full / 4, reported) == Approx(full / 4 * full / (full + 1e-6)).epsilon(1e-9));
  CHECK(reported == Approx(unclipped).epsilon(1e-12));  // the norm before clipping
  CHECK(step_length(full * 4, reported) == Approx(full).epsilon(1e-12));
}

TEST_CASE("A step that is not finite leaves the state as it was, and so do all after it") {
  for (double poison : {kNaN, kInfinity}) {
    ir::Module module = linear_model(2, 2, 2);
    programs::add_step_program(module, {});
    ir::EvalState state = start(module, {{"w", numbers(4, 1)}});
    const std::vector<double> good = numbers(4, 2), label = {0, 1};
    call(module, "step", {good, label}, state);
    const auto before = state.tensors;
    std::vector<double> bad = good;
    bad[1] = poison;
    CHECK(call(module, "step", {bad, label}, state).at("finite")[0] == 0);
    CHECK(call(module, "step", {good, label}, state).at("finite")[0] == 0);
    for (const auto& [name, tensor] : before) {
      CAPTURE(name);
      CHECK(state.tensors.at(name).data == (name == "train.finite" ? std::vector<double>{0} : tensor.data));
    }
    state.tensors.at("train.finite").data[0] = 1;
    CHECK(call(module, "step", {good, label}, state).at("finite")[0] == 1);
  }
}

TEST_CASE("Two accumulated halves and an apply equal one step on the whole batch") {
  const std::vector<double> x = numbers(16, 1), w = numbers(12, 2), label = {0, 1, 2, 1};
  programs::TrainOptions options;
  options.clip_norm = 0.05;
  ir::Module whole = linear_model(4, 4, 3);
  programs::add_step_program(whole, options);
  options.accumulate = 2;
  ir::Module half = linear_model(2, 4, 3);
  programs::add_step_program(half, options);
  CHECK_NOTHROW(ir::verify(half));
  CHECK(half.find_function("step") == nullptr);
  ir::EvalState a = start(whole, {{"w", w}}), b = start(half, {{"w", w}});
  for (int step = 0; step < 3; ++step) {
    const auto want = call(whole, "step", {x, label}, a);
    const auto one = call(half, "accumulate", {{x.begin(), x.begin() + 8}, {0, 1}}, b);
    const auto two = call(half, "accumulate", {{x.begin() + 8, x.end()}, {2, 1}}, b);
    CHECK((one.at("loss")[0] + two.at("loss")[0]) / 2 == Approx(want.at("loss")[0]).epsilon(1e-12));
    CHECK(one.at("correct1")[0] + two.at("correct1")[0] == want.at("correct1")[0]);
    CHECK(b.tensors.at("train.micro_step").scalar() == 2);
    const auto got = call(half, "apply", {}, b);
    check_close(got.at("grad_norm"), want.at("grad_norm"));
    for (const auto& [name, tensor] : a.tensors) {
      CAPTURE(name);
      check_close(b.tensors.at(name).data, tensor.data);
    }
    CHECK(b.tensors.at("train.micro_step").scalar() == 0);
    CHECK(norm(b.tensors.at("accumulate.w").data) == 0);
  }
}

TEST_CASE("A micro-batch that is not finite spoils neither the sum nor the weights") {
  programs::TrainOptions options;
  options.accumulate = 2;
  ir::Module module = linear_model(2, 2, 2);
  programs::add_step_program(module, options);
  ir::EvalState state = start(module, {{"w", numbers(4, 1)}});
  call(module, "accumulate", {numbers(4, 2), {0, 1}}, state);
  const auto before = state.tensors;
  CHECK(call(module, "accumulate", {{kNaN, 1, 1, 1}, {0, 1}}, state).at("finite")[0] == 0);
  CHECK(call(module, "apply", {}, state).at("finite")[0] == 0);
  for (const auto& [name, tensor] : before) {
    if (name != "train.finite") CHECK(state.tensors.at(name).data == tensor.data);
  }
}

TEST_CASE("Each micro-batch and each step draws its own dropout, the same for the same place") {
  programs::TrainOptions options = plain_sgd(0);
  options.accumulate = 2;
  ir::Module module = linear_model(8, 8, 3, 0.5);
  programs::add_step_program(module, options);
  const std::vector<double> x = numbers(64, 1), label = {0, 1, 2, 0, 1, 2, 0, 1};
  auto losses = [&] {
    ir::EvalState state = start(module, {{"w", numbers(24, 2)}, {"rng.seed", {7}}});
    std::vector<double> out;
    for (int step = 0; step < 2; ++step) {
      for (int micro = 0; micro < 2; ++micro) {
        out.push_back(call(module, "accumulate", {x, label}, state).at("loss")[0]);
      }
      call(module, "apply", {}, state);
    }
    return out;
  };
  std::vector<double> first = losses();
  CHECK(losses() == first);
  std::sort(first.begin(), first.end());
  CHECK(std::unique(first.begin(), first.end()) == first.end());
}

TEST_CASE("Evaluation counts hits among the best k, breaks ties by index and skips padding") {
  ir::Module module = identity_model(6, 7);
  programs::add_eval_program(module);
  CHECK_NOTHROW(ir::verify(module));
  const std::vector<double> logits = {
      1, 2, 3, 4, 5, 6, 7,  // label 6: first
      1, 2, 3, 4, 5, 6, 7,  // label 2: fifth
      1, 2, 3, 4, 5, 6, 7,  // label 1: sixth
      3, 3, 3, 3, 3, 3, 3,  // label 0: the first of a tie, as argmax
      3, 3, 3, 3, 3, 3, 3,  // label 5: sixth of a tie
      1, 2, 3, 4, 5, 6, 7,  // padding that would be a hit
  };
  ir::EvalState state;
  const auto got = call(module, "eval", {logits, {6, 2, 1, 0, 5, 6}, {1, 1, 1, 1, 1, 0}}, state);
  CHECK(got.at("correct1")[0] == 2);
  CHECK(got.at("correct5")[0] == 3);
  CHECK(got.at("count")[0] == 5);
  double total = 0;
  for (int k = 1; k <= 7; ++k) total += std::exp(k);
  check_close(got.at("loss_sum"), {3 * std::log(total) - (7 + 3 + 2) + 2 * std::log(7.0)});
}

TEST_CASE("Logits that are not numbers are never hits") {
  ir::Module module = identity_model(2, 6);
  programs::add_eval_program(module);
  ir::EvalState state;
  const std::vector<double> logits = {kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, 1, 2, 9, kNaN, 5, 6};
  const auto got = call(module, "eval", {logits, {0, 2}, {1, 1}}, state);
  CHECK(got.at("correct1")[0] == 0);
  CHECK(got.at("correct5")[0] == 1);  // the second: only the NaN may beat it
}

TEST_CASE("A parameter of another phase is neither moved nor given moments") {
  ir::Module module = linear_model(2, 2, 2);
  ir::Parameter other;
  other.name = "other";
  other.type = {ir::DType::f32, {2}};
  module.add_parameter(other);
  programs::add_step_program(module, {});
  CHECK(module.find_parameter("adamw.exp_avg.other") == nullptr);
  CHECK(module.find_parameter("adamw.exp_avg.w") != nullptr);
}

// Its moments start at zero: by the run's count its first step would be (1 - b1) / sqrt(1 - b2) = 3.2 times
// the rate.
TEST_CASE("A weight that is trained late counts its own updates, and AdamW's first step of it is the rate") {
  constexpr double kRate = 0.01;
  const std::vector<double> x = numbers(12, 1), label = {0, 1, 2, 1};
  for (const std::int64_t accumulate : {1, 2}) {
    CAPTURE(accumulate);
    programs::TrainOptions options;
    options.optimizer.set("lr", kRate).set("weight_decay", 0.0).set("eps", 0.0);
    options.accumulate = accumulate;
    ir::Module module = linear_model(4, 3, 3);
    programs::add_step_program(module, options,
                               {{"b", "optimizer.step.5"}, {"elsewhere", "optimizer.step.9"}});
    CHECK_NOTHROW(ir::verify(module));
    CHECK(module.find_parameter("optimizer.step.9") == nullptr);
    const double before = 5000;
    ir::EvalState state =
        start(module, {{"w", numbers(9, 2)}, {"train.step", {before}}, {"optimizer.step", {before}}});
    const auto step = [&] {
      if (accumulate == 1) return call(module, "step", {x, label}, state);
      for (int micro = 0; micro < 2; ++micro) call(module, "accumulate", {x, label}, state);
      return call(module, "apply", {}, state);
    };
    step();
    for (const double b : state.tensors.at("b").data) CHECK(std::abs(b) == Approx(kRate).epsilon(1e-6));
    const std::vector<double> start_of_w = numbers(9, 2);
    for (std::size_t i = 0; i < start_of_w.size(); ++i) {
      CHECK(std::abs(state.tensors.at("w").data[i] - start_of_w[i]) ==
            Approx(0.1 / std::sqrt(0.001) * kRate).epsilon(0.005));  // 1 - 0.999^5001 is 0.993
    }
    step();
    CHECK(state.tensors.at("optimizer.step.5").scalar() == 2);
    CHECK(state.tensors.at("optimizer.step").scalar() == before + 2);
    CHECK(state.tensors.at("train.step").scalar() == before + 2);
    // A step that does not count is not counted.
    state.tensors.at("train.finite").data = {0};
    step();
    CHECK(state.tensors.at("optimizer.step.5").scalar() == 2);
  }
}

TEST_CASE("Training options and models that cannot be trained are refused") {
  auto refuses = [](auto change, const std::string& message) {
    ir::Module module = linear_model(2, 2, 2);
    programs::TrainOptions options;
    change(options);
    CHECK_THROWS_WITH(programs::add_step_program(module, options), REWIRE_CATCH_CONTAINS(message));
    CHECK_THROWS_AS(programs::add_step_program(module, options), UserError);
  };
  refuses([](auto& o) { o.accumulate = 0; }, "train.accumulate is 0");
  refuses([](auto& o) { o.clip_norm = -1; }, "train.clip_norm is -1");
  refuses([](auto& o) { o.objective.set("label_smoothing", 1.0); },
          "objective.label_smoothing=1 is out of range: it takes a float >= 0 and < 1");
  refuses([](auto& o) { o.optimizer.name = "sdg"; }, "did you mean 'sgd'?");
  ir::Module wide = linear_model(2, 2, 2);
  for (ir::Parameter& p : wide.parameters) p.type.dtype = ir::DType::f64;
  CHECK_THROWS_WITH(programs::add_step_program(wide, {}), REWIRE_CATCH_CONTAINS("parameter 'w' is f64[2,2]"));
  ir::Module module = identity_model(2, 2);
  module.function("forward").results[0].name = "features";
  CHECK_THROWS_WITH(programs::add_eval_program(module), REWIRE_CATCH_CONTAINS("no result 'logits'"));
  module.function("forward").arguments[0].name = "tokens";
  CHECK_THROWS_WITH(programs::add_eval_program(module), REWIRE_CATCH_CONTAINS("no argument 'image'"));
}

}  // namespace
}  // namespace rewire::runtime
