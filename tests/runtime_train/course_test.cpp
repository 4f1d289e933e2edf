// How samples become steps where the batch changes inside a run.
#include "runtime/run/run_course.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/side_results.h"
#include "programs/programs.h"
#include "tests/runtime_train/linear_model.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

Recipe recipe_of(std::int64_t batch, std::int64_t accumulate, std::int64_t epochs,
                 std::int64_t max_steps = 0) {
  Recipe recipe;
  recipe.train.batch = batch;
  recipe.train.accumulate = accumulate;
  recipe.train.epochs = epochs;
  recipe.train.max_steps = max_steps;
  return recipe;
}

/// A run without its arithmetic: where it stands, and what it has seen.
struct Walk {
  std::int64_t samples;  // of an epoch
  Recipe recipe;
  TrainPosition at = {};
  StepSizes sizes = {recipe.train.batch, recipe.train.accumulate};
  std::vector<std::vector<bool>> seen = {};  // by epoch
  std::vector<double> shares = {};           // of the schedule, at each step
  std::set<std::int64_t> draws = {};

  RunCourse course() const { return {recipe, samples, at, sizes}; }
  double share(const RunCourse& now) const {
    return now.timeline().scheduled(at.step) / static_cast<double>(now.timeline().total_steps);
  }
  /// To the end, or until `steps` are done.
  void run(std::int64_t steps = -1) {
    const RunCourse now = course();
    while (at.epoch < recipe.train.epochs && steps != 0) {
      if (at.step_in_epoch == now.steps_of(at.epoch)) {
        at = {at.epoch + 1, 0, at.step, 0, 0};
        continue;
      }
      seen.resize(static_cast<std::size_t>(at.epoch) + 1,
                  std::vector<bool>(static_cast<std::size_t>(samples)));
      for (std::int64_t i = 0; i < sizes.samples(); ++i) {
        auto sample = seen.back().begin() + (at.samples + i);
        CHECK_FALSE(*sample);
        *sample = true;
      }
      for (std::int64_t micro = 0; micro < sizes.accumulate; ++micro)
        CHECK(draws.insert(at.step * sizes.accumulate + micro + sizes.first_draw).second);
      shares.push_back(share(now));
      at = {at.epoch, at.step_in_epoch + 1, at.step + 1, at.batches + sizes.accumulate,
            at.samples + sizes.samples()};
      --steps;
    }
  }
  void change(std::int64_t batch, std::int64_t accumulate) {
    const RunCourse before = course();
    recipe.train.batch = batch;
    recipe.train.accumulate = accumulate;
    sizes = changed_sizes(recipe, at, sizes, before.epochs_done(at.step), false);
    CHECK(share(course()) == Approx(share(before)).margin(1e-12));  // the schedule does not jump
  }
};

TEST_CASE("A run whose batch stays has a step of the schedule a step") {
  const RunCourse course(recipe_of(64, 1, 4), 1000, {}, {64, 1});
  CHECK_FALSE(course.timeline().change);
  CHECK(course.steps_per_epoch() == 15);
  CHECK(course.total_steps() == 60);
  CHECK(course.epochs_begun() == 4);
  CHECK(course.dropped(0) == 1000 - 15 * 64);
  const RunCourse ends(recipe_of(64, 1, 4, 31), 1000, {}, {64, 1});
  CHECK(ends.total_steps() == 31);
  CHECK(ends.epochs_begun() == 3);
  const RunCourse resumed(recipe_of(64, 1, 4), 1000, {1, 3, 18, 3, 192}, {64, 1});
  CHECK_FALSE(resumed.timeline().change);
  CHECK(resumed.total_steps() == 60);
  CHECK(resumed.steps_of(1) == 15);
  CHECK(resumed.epochs_begun() == 4);
  CHECK(RunCourse(recipe_of(64, 1, 4, 30), 1000, {2, 0, 30, 0, 0}, {64, 1}).epochs_begun() == 2);
}

TEST_CASE("64, 32, 128, 2 x 64 at odd places: no sample twice in an epoch, the schedule ends with the run") {
  Walk walk{1000, recipe_of(64, 1, 4)};
  walk.run(17);  // two steps into the second epoch
  CHECK(walk.at == TrainPosition{1, 2, 17, 2, 128});
  walk.change(32, 1);
  CHECK(walk.course().steps_of(1) == 2 + (1000 - 128) / 32);
  walk.run(13);
  walk.change(128, 1);
  CHECK(walk.course().dropped(1) == (1000 - 128 - 13 * 32) % 128);
  walk.run(6);
  walk.change(64, 2);
  const std::optional<StepSizes::Change> last = walk.sizes.change;
  CHECK(last->step == 30);  // as many samples a step as before: no change of the schedule
  walk.run();
  const RunCourse end = walk.course();
  CHECK(walk.at.epoch == 4);
  CHECK(walk.share(end) == Approx(1).margin(1e-12));
  CHECK(std::ranges::is_sorted(walk.shares));
  for (const std::vector<bool>& epoch : walk.seen) {
    const auto left_out = std::ranges::count(epoch, false);
    CHECK(left_out < 128);  // fewer than a step takes
  }
  CHECK(walk.seen.size() == 4);
}

TEST_CASE("Half the run by 64 samples and half by 32: the share of a step is even to the end") {
  Walk walk{640, recipe_of(64, 1, 4)};
  walk.run(20);
  walk.change(32, 1);
  walk.run();
  CHECK(walk.at.step == 20 + 40);
  for (std::size_t step = 20; step < 60; ++step)
    CHECK(walk.shares[step] == Approx(0.5 + static_cast<double>(step - 20) / 80).margin(1e-12));
}

TEST_CASE("A run that is gone on with after a change has the course that it had") {
  Walk walk{1000, recipe_of(64, 1, 4)};
  walk.run(17);
  walk.change(24, 3);
  const RunCourse before = walk.course();
  walk.run(9);
  const RunCourse after = walk.course();
  CHECK(after.total_steps() == before.total_steps());
  CHECK(after.timeline().change->rate == before.timeline().change->rate);
  CHECK(after.timeline().change->place == before.timeline().change->place);
}

TEST_CASE("What is accepted once is counted from where the run was") {
  const Recipe recipe = recipe_of(10, 1, 4);
  const TrainPosition at{2, 0, 101, 0, 0};
  const StepSizes sizes = changed_sizes(recipe, at, {10, 1}, 1.01, true);
  const RunCourse course(recipe, 1000, at, sizes);
  CHECK(course.total_steps() == 301);
  CHECK(course.epochs_done(101) == Approx(1.01).margin(1e-12));
  CHECK(course.epochs_done(301) == Approx(4).margin(1e-12));
}

TEST_CASE("An epoch with fewer samples than a step takes is refused") {
  CHECK(test::message_of<UserError>([] { RunCourse(recipe_of(64, 16, 4), 1000, {}, {64, 16}); }) ==
        "an epoch has 15 batches of 64, fewer than one step of train.accumulate=16");
}

TEST_CASE("What follows the run reads the schedule's step, which is the run's until the batch changes") {
  const auto place = [](const programs::Timeline& timeline, double step) {
    ir::Module module;
    ir::Function function;
    function.name = "place";
    ir::Builder b(module, function);
    b.result("place", programs::scheduled_step(b, b.argument("step", {ir::DType::i64, {}}), timeline));
    ir::EvalState state;
    return ir::evaluate(module, function, {ir::Tensor({ir::DType::i64, {}}, {step})}, state).at(0).scalar();
  };
  programs::Timeline timeline{15, 60};
  CHECK(place(timeline, 7) == 7);
  timeline.change = {17, 17, 0.75};
  CHECK(place(timeline, 17) == 17);
  CHECK(place(timeline, 21) == 20);
  CHECK(place(timeline, 21) == timeline.scheduled(21));
}

/// logits = progress * image W^T: reads all that follows a run but what objectives do.
ir::Module following_model() {
  ir::Module module = linear_model(2, 3, 3);
  ir::Parameter progress;
  progress.name = ir::kProgress;
  progress.type = {ir::DType::f32, {}};
  progress.trainable = false;
  module.add_parameter(progress);
  ir::Function& forward = module.function("forward");
  forward = {};
  forward.name = "forward";
  ir::Builder b(module, forward);
  const ir::Value logits = b.linear(b.argument("image", {ir::DType::f32, {2, 3}}), b.param("w"));
  b.result("logits", b.mul(logits, b.broadcast(b.param(ir::kProgress), {2, 3})));
  return module;
}

/// All states but train.step, and the rate, after the step of number `step`.
std::map<std::string, std::vector<double>> after_step(const programs::Timeline& timeline, double step) {
  ir::Module module = following_model();
  programs::TrainOptions options;
  options.optimizer = {"adamw"};
  options.optimizer.set("weight_decay", 0.3).set("weight_decay_end", 0.1);
  options.schedule = {"cosine"};
  options.timeline = timeline;
  options.ema = 0.5;
  options.ema_end = 0.9;
  programs::add_step_program(module, options);
  ir::EvalState state =
      start(module, {{"w", numbers(9, 1)}, {"ema.w", numbers(9, 2)}, {"train.step", {step}}});
  auto facts = call(module, "step", {numbers(6, 3), {0, 2}}, state);
  for (const auto& [name, tensor] : state.tensors) {
    if (name != "train.step") facts["state." + name] = tensor.data;
  }
  return facts;
}

TEST_CASE("Rate, decay, averages and progress of a changed run are those of its place in the schedule") {
  const programs::Timeline plain{5, 20};
  programs::Timeline changed = plain;
  changed.change = {10, 10, 2};
  const auto there = after_step(changed, 12), here = after_step(plain, 14), before = after_step(plain, 12);
  REQUIRE(there.size() == here.size());
  for (const char* moving : {"lr", "state.w", "state.ema.w"}) CHECK(here.at(moving) != before.at(moving));
  for (const auto& [name, values] : here) {
    CAPTURE(name);
    if (name != "state.train.progress") CHECK(there.at(name) == values);
  }
  CHECK(here.at("state.train.progress")[0] == Approx(15.0 / 20));  // of the next step
  CHECK(there.at("state.train.progress")[0] == Approx(16.0 / 20));
}

/// The loss of each batch, all of one image: it tells which values were dropped, since nothing moves.
class Draws {
 public:
  void run(int steps, std::int64_t accumulate, std::int64_t first_draw) {
    ir::Module module = linear_model(1, 64, 2, 0.5);
    programs::TrainOptions options;
    options.optimizer = {"sgd"};
    options.optimizer.set("lr", 0.0).set("weight_decay", 0.0);
    options.accumulate = accumulate;
    options.first_draw = first_draw;
    programs::add_step_program(module, options);
    ir::EvalState state = start(module, {{"w", numbers(128, 1)}, {"train.step", {step_}}});
    const std::vector<std::vector<double>> batch = {numbers(64, 2), {0}};
    for (int i = 0; i < steps; ++i, ++step_) {
      if (accumulate == 1) losses.push_back(call(module, "step", batch, state).at("loss")[0]);
      for (std::int64_t micro = 0; accumulate > 1 && micro < accumulate; ++micro)
        losses.push_back(call(module, "accumulate", batch, state).at("loss")[0]);
      if (accumulate > 1) call(module, "apply", {}, state);
    }
  }
  std::size_t different() const { return std::set<double>(losses.begin(), losses.end()).size(); }
  std::vector<double> losses;

 private:
  double step_ = 0;
};

TEST_CASE("No number is drawn twice where a step takes fewer batches than before") {
  Draws draws;
  draws.run(5, 4, 0);
  draws.run(4, 2, 5 * 4 - 5 * 2);  // as RunCourse has it: 20 draws so far
  draws.run(4, 1, 28 - 9 * 1);
  CHECK(draws.losses.size() == 32);
  CHECK(draws.different() == 32);
  Draws repeated;
  repeated.run(5, 4, 0);
  repeated.run(4, 2, 0);
  CHECK(repeated.different() < repeated.losses.size());  // the test can see it
}

}  // namespace
}  // namespace rewire::runtime
