// The objective of diffusion on a network that one follows by hand, and samples of networks whose velocities are known.
#include <cmath>

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/philox.h"
#include "ir/verify.h"
#include "programs/objective.h"
#include "programs/programs.h"
#include "runtime/measure/sample.h"
#include "tests/runtime_train/linear_model.h"
#include "tests/support/catch.h"

namespace rewire::runtime {
namespace {

constexpr std::int64_t kClassCount = 2;  // and the class that is none

/// forward(image [batch, 1, 2, 2], time, label) -> velocity = image (w + ramp time) + table[label], one number a class.
ir::Module known_velocity(std::int64_t batch, double ramp = 0) {
  ir::Module module;
  module.name = "known";
  module.attributes = {{"classes", kClassCount}, {"null_class", true}};
  for (const auto& [name, shape] : {std::pair{"w", ir::Shape{}}, {"table", ir::Shape{kClassCount + 1}}}) {
    ir::Parameter p;
    p.name = name;
    p.type = {ir::DType::f32, shape};
    module.add_parameter(p);
  }
  ir::Function forward;
  forward.name = "forward";
  ir::Builder b(module, forward);
  const ir::Value image = b.argument("image", {ir::DType::f32, {batch, 1, 2, 2}});
  const ir::Value time = b.argument("time", {ir::DType::f32, {batch}});
  const ir::Value label = b.argument("label", {ir::DType::i64, {batch}});
  const ir::Value of_label =
      b.emit(ir::Opcode::gather, {b.param("table"), label}, {{"axis", std::int64_t{0}}});
  const ir::Value factor = b.add(b.reshape(b.mul(time, ramp), {batch, 1, 1, 1}), b.param("w"));
  b.result("velocity", b.add(b.mul(image, factor), b.reshape(of_label, {batch, 1, 1, 1})));
  module.functions.push_back(std::move(forward));
  return module;
}

programs::TrainOptions diffusing(double label_drop) {
  programs::TrainOptions options;
  options.objective = {"diffusion"};
  options.objective.set("label_drop", label_drop);
  return options;
}

TEST_CASE(
    "The loss of diffusion is that of velocities on the line from noise to image, of labels that may drop") {
  constexpr std::size_t kImages = 3, kPixels = 4;
  const std::vector<double> images = numbers(kImages * kPixels, 1), noise = numbers(kImages * kPixels, 2),
                            labels = {1, 0, 1}, time = {0.25, 0, 0.875}, drop = {0.5, 0.29, 0.3};
  const std::vector<double> table = {0.5, -1, 2};
  const double w = 0.7;
  ir::Module module = known_velocity(kImages);
  programs::add_grad_program(module, diffusing(0.3));
  programs::add_eval_program(module, diffusing(0.3).objective);
  const auto loss_of = [&](std::size_t i, std::size_t label, double* gradient) {
    double loss = 0;
    for (std::size_t k = i * kPixels; k < (i + 1) * kPixels; ++k) {
      const double at = time[i] * images[k] + (1 - time[i]) * noise[k];
      const double error = w * at + table[label] - (images[k] - noise[k]);
      loss += error * error / kPixels;
      *gradient += 2 * error * at / (kPixels * kImages);
    }
    return loss;
  };
  ir::EvalState state = start(module, {{"w", {w}}, {"table", table}});
  double gradient = 0, ignored = 0;
  const double loss =
      (loss_of(0, 1, &gradient) + loss_of(1, 2, &gradient) + loss_of(2, 1, &gradient)) / kImages;
  const auto got = call(module, "grad", {images, labels, noise, time, drop}, state);
  CHECK(got.at("loss")[0] == Approx(loss).epsilon(1e-12));
  CHECK(got.at("w")[0] == Approx(gradient).epsilon(1e-12));
  CHECK(got.at("table")[0] == 0);  // the one image of class 0 has lost its label
  CHECK(got.at("table")[2] != 0);
  // An evaluation drops none.
  const auto evaluated = call(module, "eval", {images, labels, noise, time, drop, {0, 1, 1}}, state);
  CHECK(evaluated.at("loss_sum")[0] ==
        Approx(loss_of(1, 0, &ignored) + loss_of(2, 1, &ignored)).epsilon(1e-12));
  CHECK(evaluated.at("count")[0] == 2);
}

TEST_CASE("Noise and times are the loader's to draw, and networks without velocities are refused") {
  const auto inputs = programs::make_objective(diffusing(0.1).objective)->inputs(known_velocity(2));
  REQUIRE(inputs.size() == 5);
  CHECK(inputs[1].categories == kClassCount);
  CHECK(inputs[2].filler == programs::Filler::normal);
  CHECK(inputs[3].filler == programs::Filler::uniform);
  CHECK(inputs[4].name == "drop");
  CHECK(programs::make_objective(diffusing(0).objective)->inputs(known_velocity(2)).size() == 4);
  const auto refuses = [](ir::Module module, const std::string& message) {
    const auto objective = programs::make_objective(ir::Selection{"diffusion"});
    CHECK_THROWS_WITH(objective->inputs(module), REWIRE_CATCH_CONTAINS(message));
    CHECK_THROWS_AS(objective->inputs(module), UserError);
  };
  refuses(linear_model(2, 4, 3), "the network lacks 'time'");
  ir::Module without = known_velocity(2);
  without.attributes.set("null_class", false);
  refuses(without, "objective.label_drop=0.1 needs a 'no class' label: set model.null_class=true");
  CHECK_THROWS_WITH(programs::make_objective(ir::Selection{"supervised"})->inputs(known_velocity(2)),
                    REWIRE_CATCH_CONTAINS("set objective.name=diffusion"));
}

/// An engine that computes in double precision; images are rounded to f32 from one step to the next.
std::unique_ptr<Engine> engine_of(const ir::Module& module, double w, const std::vector<double>& table) {
  ir::verify(module);
  std::unique_ptr<Engine> engine = make_evaluator_engine(module);
  engine->write_state("w", to_host(ir::Tensor({ir::DType::f32, {}}, {w})));
  engine->write_state("table", to_host(ir::Tensor({ir::DType::f32, {kClassCount + 1}}, table)));
  return engine;
}

double first_noise(std::uint64_t seed, std::uint64_t index) {
  return ir::PhiloxStream{seed, 0, ir::stream_hash("sample.noise")}.normal(index);
}

TEST_CASE("Euler's samples approach the solution in proportion to the step, Heun's to its square") {
  // d x / d t = x (w + r t): x(1) = x(0) exp(w + r / 2).
  constexpr double kW = 1, kRamp = -0.5;
  ir::Module module = known_velocity(2, kRamp);
  programs::add_sample_programs(module, {"diffusion"}, {.corrects = true});
  const auto engine = engine_of(module, kW, {0, 0, 0});
  const auto error = [&](bool heun, std::int64_t steps) {
    const HostTensor got =
        draw_samples(*engine, module, {.images = 3, .steps = steps, .heun = heun, .classes = 2, .seed = 5});
    CHECK(got.type().shape == ir::Shape{3, 1, 2, 2});
    double most = 0;
    for (std::size_t k = 0; k < 12; ++k) {
      const double want = first_noise(5, k) * std::exp(kW + kRamp / 2);
      most = std::max(most, std::abs(got.as<float>()[k] - want) / std::abs(want));
    }
    return most;
  };
  for (const std::int64_t steps : {8, 16}) {
    CAPTURE(steps);
    CHECK(std::log2(error(false, steps) / error(false, 2 * steps)) == Approx(1).margin(0.1));
    CHECK(std::log2(error(true, steps) / error(true, 2 * steps)) == Approx(2).margin(0.15));
  }
}

TEST_CASE("Guidance goes from the velocity of no class beyond that of the class") {
  ir::Module module = known_velocity(4);  // two samples, with and without their label
  programs::add_sample_programs(module, {"diffusion"}, {.guided = true, .corrects = true});
  const auto engine = engine_of(module, 0, {0.5, -1, 2});
  for (const bool heun : {false, true}) {
    for (const double guidance : {0.0, 1.0, 3.0}) {
      CAPTURE(heun, guidance);
      const HostTensor got = draw_samples(
          *engine, module,
          {.images = 3, .steps = 4, .heun = heun, .classes = 2, .guidance = guidance, .seed = 1});
      for (std::size_t k = 0; k < 12; ++k) {  // classes 0, 1, 0
        const double of_label = k / 4 == 1 ? -1 : 0.5;
        CHECK(got.as<float>()[k] == Approx(first_noise(1, k) + 2 + guidance * (of_label - 2)).margin(1e-5));
      }
    }
  }
  const HostTensor of_one = draw_samples(
      *engine, module, {.images = 1, .steps = 1, .classes = 2, .label = 1, .guidance = 1.0, .seed = 1});
  CHECK(of_one.as<float>()[0] == Approx(first_noise(1, 0) - 1).margin(1e-6));
}

TEST_CASE("Samples are drawn by objectives that have velocities, and guided where a class is none") {
  ir::Module classifier = linear_model(2, 4, 3), without = known_velocity(2);
  CHECK_THROWS_WITH(programs::add_sample_programs(classifier, {"supervised"}, {}),
                    REWIRE_CATCH_CONTAINS("the objective supervised draws no samples"));
  without.attributes.set("null_class", false);
  ir::Selection objective{"diffusion"};
  objective.set("label_drop", 0.0);
  CHECK_NOTHROW(programs::add_sample_programs(without, objective, {}));
  ir::Module again = known_velocity(2);
  again.attributes.set("null_class", false);
  CHECK_THROWS_WITH(programs::add_sample_programs(again, objective, {.guided = true}),
                    REWIRE_CATCH_CONTAINS("guidance needs a 'no class' label"));
}

}  // namespace
}  // namespace rewire::runtime
