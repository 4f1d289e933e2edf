// The objective dino on a network of one product: what it asks of a network, what it holds still, and what it remembers.
#include <cmath>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/verify.h"
#include "programs/objective.h"
#include "programs/programs.h"
#include "runtime/network/run_programs.h"
#include "runtime/network/weights.h"
#include "tests/runtime_train/linear_model.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

constexpr std::int64_t kDinoOutputs = 3, kDinoLocalSide = 1, kDinoSide = 2, kDinoBatch = 2;

/// projection = mean of the pixels times the row "head.last_layer.weight_v", with "gain" of the image.
ir::Module projector(std::int64_t batch, std::int64_t side) {
  ir::Module module;
  module.name = "projector";
  for (const char* name : {"gain", "head.last_layer.weight_v"}) {
    ir::Parameter p;
    p.name = name;
    p.type = {ir::DType::f32, {1, *name == 'g' ? 1 : kDinoOutputs}};
    module.add_parameter(p);
  }
  ir::Function forward;
  forward.name = "forward";
  ir::Builder b(module, forward);
  const ir::Value image = b.argument("image", {ir::DType::f32, {batch, 1, side, side}});
  const ir::Value mean = b.reshape(b.mean(image, {1, 2, 3}), {batch, 1});
  const ir::Value features = b.mul(mean, b.param("gain"));
  b.result("projection", b.mul(features, b.param("head.last_layer.weight_v")));
  b.result("features", features);
  module.functions.push_back(std::move(forward));
  return module;
}

programs::TrainOptions distilling(std::int64_t local_crops = 1) {
  programs::TrainOptions options;
  options.objective = {"dino"};
  options.objective.set("local_crops", local_crops);
  options.objective.set("local_size", kDinoLocalSide);
  options.optimizer = {"sgd"};
  options.optimizer.set("lr", 0.5);
  options.optimizer.set("weight_decay", 0.0);
  options.timeline = {.steps_per_epoch = 2, .total_steps = 6};
  options.ema = 0.75;
  return options;
}

ir::Module stepping(const programs::TrainOptions& options) {
  const std::vector<programs::NetworkFunction> forms = programs::make_objective(options.objective)->forms();
  std::vector<ir::Module> modules;
  for (const programs::NetworkFunction& form : forms)
    modules.push_back(projector(kDinoBatch * form.images, form.side == 0 ? kDinoSide : form.side));
  ir::Module module = join_forms(forms, std::move(modules));
  programs::add_step_program(module, options);
  ir::verify(module);
  return module;
}

TensorMap views_of_step(std::int64_t local_crops, std::uint64_t seed) {
  const auto view = [&](std::int64_t count, std::int64_t side, std::uint64_t of) {
    const ir::TensorType type{ir::DType::f32, {count, kDinoBatch, 1, side, side}};
    return to_host(ir::Tensor(type, numbers(static_cast<std::size_t>(type.elements()), seed + of)));
  };
  TensorMap inputs;
  inputs.emplace("global1", view(1, kDinoSide, 0));
  inputs.emplace("global2", view(1, kDinoSide, 1));
  if (local_crops > 0) inputs.emplace("local", view(local_crops, kDinoLocalSide, 2));
  return inputs;
}

double first(const Engine& engine, const std::string& name) {
  return to_double(engine.read_state(name)).data.front();
}

std::unique_ptr<Engine> start_projector(const ir::Module& module) {
  std::unique_ptr<Engine> engine = make_evaluator_engine(module);
  TensorMap weights;
  weights.emplace("gain", to_host(ir::Tensor({ir::DType::f32, {1, 1}}, {1.5})));
  weights.emplace("head.last_layer.weight_v",
                  to_host(ir::Tensor({ir::DType::f32, {1, kDinoOutputs}}, {0.3, -0.2, 0.9})));
  start_state(*engine, module, weights, 1);
  return engine;
}

TEST_CASE(
    "Self-distillation moves student, teacher and centre, and the last layer from the second epoch on") {
  const std::int64_t local_crops = GENERATE(0, 1, 3);
  CAPTURE(local_crops);
  const programs::TrainOptions options = distilling(local_crops);
  const ir::Module module = stepping(options);
  const std::unique_ptr<Engine> engine = start_projector(module);
  CHECK(first(*engine, "ema.gain") == 1.5);
  double teacher = 1.5, centre = 0;
  for (std::uint64_t step = 0; step < 4; ++step) {
    CAPTURE(step);
    const TensorMap views = views_of_step(local_crops, 10 * step);
    const double last_layer = first(*engine, "head.last_layer.weight_v"),
                 told = first(*engine, "ema.head.last_layer.weight_v");
    const TensorMap results = engine->run("step", views);
    REQUIRE(to_double(results.at("finite")).scalar() == 1);
    CHECK((first(*engine, "head.last_layer.weight_v") != last_layer) == (step >= 2));
    CHECK(first(*engine, "optimizer.step.held.head.last_layer.weight_v") ==
          static_cast<double>(step < 2 ? 0 : step - 1));
    // The centre saw the teacher of before this step.
    double mean = 0;
    for (const char* name : {"global1", "global2"}) {
      const ir::Tensor view = to_double(views.at(name));
      for (const double x : view.data) mean += x / (2 * static_cast<double>(view.data.size()));
    }
    centre = 0.9 * centre + 0.1 * mean * teacher * told;
    CHECK(first(*engine, "objective.center") == Approx(centre).epsilon(1e-5));
    teacher = 0.75 * teacher + 0.25 * first(*engine, "gain");
    CHECK(first(*engine, "ema.gain") == Approx(teacher).epsilon(1e-6));
  }
}

TEST_CASE(
    "After a change of the batch, teacher's temperature and the last layer follow the schedule's step") {
  struct Outcome {
    double entropy, last_layer, centre;
    bool operator==(const Outcome&) const = default;
  };
  const auto behind = [](std::int64_t step, std::optional<programs::Timeline::Change> change) {
    programs::TrainOptions options = distilling();
    options.objective.set("warmup_teacher_temp", 0.5).set("warmup_teacher_temp_epochs", std::int64_t{2});
    options.timeline.change = change;
    const ir::Module module = stepping(options);
    const std::unique_ptr<Engine> engine = start_projector(module);
    engine->write_state("train.step", to_host(ir::Tensor({ir::DType::i64, {}}, {static_cast<double>(step)})));
    const TensorMap results = engine->run("step", views_of_step(1, 3));
    return Outcome{to_double(results.at("entropy")).scalar(), first(*engine, "head.last_layer.weight_v"),
                   first(*engine, "objective.center")};
  };
  const Outcome changed = behind(1, programs::Timeline::Change{0, 0, 2});
  CHECK(changed == behind(2, {}));
  const Outcome plain = behind(1, {});
  CHECK(changed.entropy != plain.entropy);
  CHECK(changed.last_layer != plain.last_layer);
}

TEST_CASE("A step that is not finite leaves student, teacher, centre and counts as they were") {
  const ir::Module module = stepping(distilling());
  const std::unique_ptr<Engine> engine = start_projector(module);
  engine->run("step", views_of_step(1, 3));
  std::map<std::string, std::vector<double>> before;
  for (const ir::Parameter& parameter : module.parameters) {
    if (parameter.name != "train.finite")
      before[parameter.name] = to_double(engine->read_state(parameter.name)).data;
  }
  TensorMap views = views_of_step(1, 4);
  views.at("global2").as<float>()[1] = std::nanf("");
  CHECK(to_double(engine->run("step", views).at("finite")).scalar() == 0);
  for (const auto& [name, values] : before) {
    CAPTURE(name);
    CHECK(to_double(engine->read_state(name)).data == values);
  }
}

TEST_CASE("Averages follow their schedule to the end") {
  programs::TrainOptions options = distilling();
  options.ema_end = 1;
  const ir::Module module = stepping(options);
  const std::unique_ptr<Engine> engine = start_projector(module);
  double teacher = 1.5;
  for (std::uint64_t step = 0; step < 6; ++step) {
    engine->run("step", views_of_step(1, 7 * step));
    const double momentum = 1 - 0.25 * (1 + std::cos(M_PI * static_cast<double>(step) / 6)) / 2;
    teacher = momentum * teacher + (1 - momentum) * first(*engine, "gain");
    CHECK(first(*engine, "ema.gain") == Approx(teacher).epsilon(1e-6));
  }
}

TEST_CASE("Gradients are clipped by each weight's own norm where they are asked to be") {
  programs::TrainOptions options = distilling();
  options.objective.set("freeze_last_layer", std::int64_t{0});
  options.clip_norm = 1e-3;
  options.clip_each = true;
  options.optimizer.set("momentum", 0.0);
  const ir::Module module = stepping(options);
  const std::unique_ptr<Engine> engine = start_projector(module);
  const ir::Tensor before = to_double(engine->read_state("head.last_layer.weight_v"));
  engine->run("step", views_of_step(1, 5));
  CHECK(std::abs(first(*engine, "gain") - 1.5) == Approx(0.5e-3).epsilon(1e-2));
  double way = 0;
  const ir::Tensor after = to_double(engine->read_state("head.last_layer.weight_v"));
  for (std::size_t i = 0; i < after.data.size(); ++i) way = std::hypot(way, after.data[i] - before.data[i]);
  CHECK(way == Approx(0.5e-3).epsilon(1e-2));
}

TEST_CASE("What self-distillation cannot do is refused") {
  const auto refused = [](const programs::TrainOptions& options) {
    return test::message_of<UserError>([&] { stepping(options); });
  };
  programs::TrainOptions options = distilling();
  options.ema = 0;
  CHECK(refused(options) ==
        "the objective dino reads moving averages of the weights, but train.ema is 0: set train.ema, for "
        "example to 0.996");
  options = distilling();
  options.timeline.total_steps = 0;
  options.ema_end = 1;
  CHECK(refused(options) == "train.ema_end=1: the run has no end at which the decay could reach it");
  options = distilling();
  options.clip_each = true;
  CHECK(refused(options) ==
        "train.clip is each, but train.clip_norm is 0: nothing is clipped; set train.clip_norm too");
  const auto objective = programs::make_objective(distilling().objective);
  CHECK_THROWS_WITH(
      objective->inputs(linear_model(3, 4, 2)),
      REWIRE_CATCH_CONTAINS("gives 'projection' and 'features', as the networks of the family dino"));
  CHECK_THROWS_WITH(programs::make_objective(ir::Selection{"supervised"})->inputs(projector(2, 2)),
                    REWIRE_CATCH_CONTAINS("set objective.name=dino"));
  // The local form has other weights.
  const std::vector<programs::NetworkFunction> forms = objective->forms();
  ir::Module other = projector(2, 1);
  other.find_parameter("gain")->type.shape = {1, 2};
  std::vector<ir::Module> modules = {projector(4, 2), std::move(other)};
  CHECK(test::message_of<UserError>([&] { join_forms(forms, std::move(modules)); }) ==
        "parameter 'gain' is f32[1,2] for images of 1 pixels per side, but f32[1,1] for the network's own");
}

}  // namespace
}  // namespace rewire::runtime
