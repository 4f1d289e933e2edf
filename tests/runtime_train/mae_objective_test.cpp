// The objective mae on a network that predicts what its weight says, whatever the image: its loss by hand.
#include <cmath>

#include "ir/builder.h"
#include "ir/error.h"
#include "programs/objective.h"
#include "programs/programs.h"
#include "tests/runtime_train/linear_model.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

constexpr std::int64_t kMaeImages = 2, kMaeChannels = 2, kMaeSide = 4, kMaePatches = 4, kMaePixels = 8;

/// prediction = w, the mask is the noise's larger half.
ir::Module predictor() {
  ir::Module module;
  module.name = "predictor";
  ir::Parameter w;
  w.name = "w";
  w.type = {ir::DType::f32, {kMaeImages, kMaePatches, kMaePixels}};
  module.add_parameter(w);
  ir::Function forward;
  forward.name = "forward";
  ir::Builder b(module, forward);
  b.argument("image", {ir::DType::f32, {kMaeImages, kMaeChannels, kMaeSide, kMaeSide}});
  const ir::Value noise = b.argument("noise", {ir::DType::f32, {kMaeImages, kMaePatches}});
  b.result("prediction", b.param("w"));
  b.result("mask", b.cast(b.compare("ge", noise, b.constant(0.5)), ir::DType::f32));
  module.functions.push_back(std::move(forward));
  return module;
}

programs::TrainOptions masked(bool normalises) {
  programs::TrainOptions options;
  options.objective = {"mae"};
  options.objective.set("norm_pix_loss", normalises);
  return options;
}

/// Of patch (row, column) of an image, pixel by pixel, the channels of each side by side.
std::vector<double> patch_of(const std::vector<double>& images, std::size_t image, std::size_t patch) {
  std::vector<double> pixels;
  for (std::size_t y = 0; y < 2; ++y) {
    for (std::size_t x = 0; x < 2; ++x) {
      for (std::size_t c = 0; c < 2; ++c)
        pixels.push_back(images[((image * 2 + c) * 4 + patch / 2 * 2 + y) * 4 + patch % 2 * 2 + x]);
    }
  }
  return pixels;
}

TEST_CASE("Present classes compete where the network tells classes apart") {
  ir::Module module = predictor();
  CHECK(
      test::message_of<UserError>([&] { programs::add_eval_program(module, masked(false).objective, 3); }) ==
      "eval.classes=present needs 'logits' [batch, classes], which the network does not give: set "
      "eval.classes=all");
}

TEST_CASE("The loss of masked autoencoding is over the masked patches alone, of raw or normalised pixels") {
  const bool normalises = GENERATE(false, true);
  CAPTURE(normalises);
  const std::vector<double> images = numbers(kMaeImages * kMaeChannels * kMaeSide * kMaeSide, 4),
                            w = numbers(kMaeImages * kMaePatches * kMaePixels, 5);
  const std::vector<double> noise = {0.1, 0.9, 0.6, 0.2, 0.7, 0.3, 0.1, 0.8};  // two of four are masked
  ir::Module module = predictor();
  programs::add_grad_program(module, masked(normalises));
  programs::add_eval_program(module, masked(normalises).objective);
  double loss = 0, of_image[2] = {0, 0};
  std::vector<double> gradient(w.size());
  for (std::size_t i = 0; i < kMaeImages; ++i) {
    for (std::size_t p = 0; p < kMaePatches; ++p) {
      if (noise[i * kMaePatches + p] < 0.5) continue;
      std::vector<double> t = patch_of(images, i, p);
      if (normalises) {
        double mean = 0, variance = 0;
        for (const double pixel : t) mean += pixel / kMaePixels;
        for (const double pixel : t) variance += (pixel - mean) * (pixel - mean) / (kMaePixels - 1);
        for (double& pixel : t) pixel = (pixel - mean) / std::sqrt(variance + 1e-6);
      }
      for (std::size_t k = 0; k < kMaePixels; ++k) {
        const std::size_t at = (i * kMaePatches + p) * kMaePixels + k;
        const double error = w[at] - t[k];
        of_image[i] += error * error / (2 * kMaePixels);
        gradient[at] = 2 * error / (4 * kMaePixels);
      }
    }
    loss += of_image[i] / kMaeImages;
  }
  ir::EvalState state = start(module, {{"w", w}});
  const auto got = call(module, "grad", {images, noise}, state);
  CHECK(got.at("loss")[0] == Approx(loss).epsilon(1e-12));
  for (std::size_t k = 0; k < w.size(); ++k)
    CHECK(got.at("w")[k] == Approx(gradient[k]).epsilon(1e-12).margin(1e-15));
  // A sample of weight 0 only fills up the batch.
  const auto evaluated = call(module, "eval", {images, noise, {0, 1}}, state);
  CHECK(evaluated.at("loss_sum")[0] == Approx(of_image[1]).epsilon(1e-12));
  CHECK(evaluated.at("count")[0] == 1);
}

TEST_CASE("Noise is the loader's to draw, and a network of another kind is refused with what it lacks") {
  const auto objective = programs::make_objective(ir::Selection{"mae"});
  const programs::Inputs inputs = objective->inputs(predictor());
  REQUIRE(inputs.size() == 2);
  CHECK(inputs[0].filler == programs::Filler::data);
  CHECK(inputs[1].name == "noise");
  CHECK(inputs[1].filler == programs::Filler::uniform);
  CHECK_THROWS_WITH(objective->inputs(linear_model(3, 4, 2)),
                    REWIRE_CATCH_CONTAINS("the network lacks 'noise'"));
  CHECK_THROWS_WITH(programs::make_objective(ir::Selection{"supervised"})->inputs(predictor()),
                    REWIRE_CATCH_CONTAINS("set objective.name=mae"));
  ir::Module wrong = predictor();
  ir::Function& forward = wrong.function("forward");
  for (ir::TensorType& type : forward.types) {
    if (type.shape == ir::Shape{kMaeImages, kMaePatches, kMaePixels})
      type.shape = {kMaeImages, kMaePatches, 6};
  }
  CHECK_THROWS_WITH(objective->inputs(wrong),
                    REWIRE_CATCH_CONTAINS("'prediction' [batch,patches,pixels of a patch]"));
}

}  // namespace
}  // namespace rewire::runtime
