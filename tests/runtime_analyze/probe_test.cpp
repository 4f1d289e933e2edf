// Probes against sums by hand: interpolated logits, losses that leave pixels out, intersections over unions.
#include "runtime/analyze/probe.h"

#include <cmath>

#include "ir/error.h"
#include "ir/philox.h"
#include "ir/verify.h"
#include "models/probe.h"
#include "programs/programs.h"
#include "runtime/analyze/pixel_labels.h"
#include "runtime/data/vision/png_file.h"
#include "runtime/exec/make_engine.h"
#include "runtime/io/files.h"
#include "runtime/io/npy.h"
#include "runtime/network/weights.h"
#include "tests/support/catch.h"
#include "tests/support/host_noise.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::test::probes {
namespace {

using Doubles = std::vector<double>;

struct Points {
  std::vector<float> rows;
  std::vector<std::int64_t> labels;
  runtime::ProbeSet set() const { return {rows, labels, std::ssize(labels)}; }
};

/// Points around one corner of a simplex a class; `spread` apart from it.
Points points(std::int64_t count, std::int64_t classes, double spread, const char* name,
              std::int64_t shift = 0) {
  const ir::PhiloxStream draws{9, 0, ir::stream_hash(name)};
  Points made;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t label = i % classes;
    made.labels.push_back((label + shift) % classes);
    for (std::int64_t j = 0; j < classes; ++j)
      made.rows.push_back(static_cast<float>(
          (j == label ? 1 : 0) + spread * draws.normal(static_cast<std::uint64_t>(i * classes + j))));
  }
  return made;
}

runtime::ProbeTraining quick() {
  runtime::ProbeTraining training;
  training.lr = .1, training.weight_decay = 0, training.epochs = 30, training.batch = 32;
  return training;
}

TEST_CASE("A linear probe finds labels that a plane tells apart, by any optimizer, with and without a norm") {
  const Points train = points(200, 4, .05, "train"), test = points(100, 4, .05, "test");
  for (const bool norm : {false, true}) {
    for (const char* optimizer : {"adamw", "sgd", "lars"}) {
      CAPTURE(norm, optimizer);
      runtime::ProbeTraining training = quick();
      training.optimizer = optimizer;
      if (training.optimizer == "lars") training.lr = 20;  // its steps are a thousandth of the weights
      const runtime::ProbeOutcome outcome =
          runtime::train_linear_probe({train.set()}, test.set(), 4, norm, training);
      CHECK(outcome.top1 == 1);
      CHECK(outcome.loss < std::log(4.0));
      // The same seed gives the same probe.
      CHECK(runtime::train_linear_probe({train.set()}, test.set(), 4, norm, training).loss == outcome.loss);
    }
  }
  // Of labels that have nothing to do with the rows a probe finds nothing.
  const Points noise = points(100, 4, 30, "noise");
  CHECK(runtime::train_linear_probe({train.set()}, noise.set(), 4, false, quick()).top1 < .5);
}

TEST_CASE("A probe draws one of its sets for each epoch") {
  // The second set says the opposite of the first: with both, neither is learned.
  const Points plain = points(64, 2, .01, "plain"), turned = points(64, 2, .01, "turned", 1);
  CHECK(runtime::train_linear_probe({plain.set()}, plain.set(), 2, false, quick()).top1 == 1);
  CHECK(runtime::train_linear_probe({turned.set()}, plain.set(), 2, false, quick()).top1 == 0);
  const runtime::ProbeOutcome both =
      runtime::train_linear_probe({plain.set(), turned.set()}, plain.set(), 2, false, quick());
  CHECK(both.loss > .3);
}

TEST_CASE("A probe's settings are refused as the recipe's are, and one that diverges is told") {
  Points train = points(40, 2, .1, "train");
  const auto refusal = [&](runtime::ProbeTraining training) {
    return message_of<UserError>(
        [&] { runtime::train_linear_probe({train.set()}, train.set(), 2, false, training); });
  };
  runtime::ProbeTraining training = quick();
  training.optimizer = "adamq";
  CHECK_THAT(refusal(training), REWIRE_CATCH_CONTAINS("optimizer.name=adamq is unknown"));
  training = quick();
  training.optimizer = "sgd";
  for (float& x : train.rows) x *= 1e30F;
  CHECK_THAT(refusal(training), REWIRE_CATCH_CONTAINS("the probe diverges in step "));
}

/// Along one axis, as PyTorch's interpolate defines it without align_corners.
double interpolated(const Doubles& values, std::int64_t to, std::int64_t i) {
  const auto from = std::ssize(values);
  const double at =
      std::max(0.0, (static_cast<double>(i) + .5) * static_cast<double>(from) / static_cast<double>(to) - .5);
  const auto low = static_cast<std::int64_t>(at), high = std::min<std::int64_t>(low + 1, from - 1);
  const double share = at - static_cast<double>(low);
  return (1 - share) * values[static_cast<std::size_t>(low)] + share * values[static_cast<std::size_t>(high)];
}

constexpr models::DenseProbe kDense{
    .width = 3, .classes = 2, .rows = 2, .columns = 3, .height = 4, .image_columns = 9};
constexpr std::int64_t kImages = 2, kPixels = 4 * 9;

struct DenseRun {
  ir::Module module;
  runtime::TensorMap weights;
  std::unique_ptr<runtime::Engine> engine;
  runtime::HostTensor image = testing::noise({kImages, 6, 3}, 3, "image");

  DenseRun() : module(models::dense_probe(kDense, kImages)) {
    programs::add_eval_program(module, {"segmentation"});
    programs::TrainOptions options;
    options.objective = {"segmentation"};
    programs::add_grad_program(module, options);
    ir::verify(module);
    weights = runtime::fresh_weights(module, {}, 0);
    weights.insert_or_assign("head.weight", testing::noise({2, 3}, 3, "weight"));
    weights.insert_or_assign("head.bias", testing::noise({2}, 3, "bias"));
    engine = runtime::make_engine("evaluator", module);
    runtime::start_state(*engine, module, weights, 0);
  }
  runtime::TensorMap run(const char* program, runtime::TensorMap inputs = {}) {
    inputs.emplace("image", image.clone());
    return engine->run(program, inputs);
  }
};

TEST_CASE("A dense probe's logits are those of the patches, bilinear between their middles") {
  DenseRun dense;
  const Doubles logits = runtime::to_double(dense.run("forward").at("logits")).data;
  const Doubles x = runtime::to_double(dense.image).data,
                w = runtime::to_double(dense.weights.at("head.weight")).data,
                bias = runtime::to_double(dense.weights.at("head.bias")).data;
  const auto patch = [&](std::size_t image, std::size_t c, std::size_t row, std::size_t column) {
    const std::size_t first = (image * 6 + row * 3 + column) * 3;
    return x[first] * w[c * 3] + x[first + 1] * w[c * 3 + 1] + x[first + 2] * w[c * 3 + 2] + bias[c];
  };
  REQUIRE(logits.size() == kImages * 2 * kPixels);
  for (std::size_t at = 0; at < logits.size(); ++at) {
    const std::size_t image = at / (2 * kPixels), c = at / kPixels % 2;
    const auto row = static_cast<std::int64_t>(at % kPixels / 9), column = static_cast<std::int64_t>(at % 9);
    Doubles of_rows;
    for (std::size_t r = 0; r < 2; ++r)
      of_rows.push_back(
          interpolated({patch(image, c, r, 0), patch(image, c, r, 1), patch(image, c, r, 2)}, 9, column));
    CHECK(logits[at] == Approx(interpolated(of_rows, 4, row)).epsilon(1e-6));
  }
}

TEST_CASE(
    "A pixel's loss is cross-entropy, and pixels of no class and images of weight 0 count for nothing") {
  DenseRun dense;
  const Doubles logits = runtime::to_double(dense.run("forward").at("logits")).data;
  runtime::HostTensor label({ir::DType::i64, {kImages, 4, 9}});
  for (std::size_t i = 0; i < label.as<std::int64_t>().size(); ++i)
    label.as<std::int64_t>()[i] = i % 5 == 0 ? runtime::kIgnoredPixel : static_cast<std::int64_t>(i % 2);
  double losses[kImages] = {}, counts[kImages] = {}, hits[kImages] = {};
  for (std::size_t i = 0; i < kImages * kPixels; ++i) {
    const std::size_t image = i / kPixels, first = image * 2 * kPixels + i % kPixels;
    if (label.as<std::int64_t>()[i] == runtime::kIgnoredPixel) continue;
    const double z[] = {logits[first], logits[first + kPixels]};
    const auto own = static_cast<std::size_t>(label.as<std::int64_t>()[i]);
    losses[image] += std::log(std::exp(z[0]) + std::exp(z[1])) - z[own];
    hits[image] += z[own] > z[1 - own] ? 1 : 0;
    counts[image] += 1;
  }
  runtime::TensorMap inputs;
  inputs.emplace("label", label.clone());
  CHECK(runtime::to_double(dense.run("grad", std::move(inputs)).at("loss")).data[0] ==
        Approx((losses[0] + losses[1]) / (counts[0] + counts[1])).epsilon(1e-6));
  runtime::TensorMap first_alone;
  first_alone.emplace("label", label.clone());
  runtime::HostTensor weight({ir::DType::f32, {kImages}});
  weight.as<float>()[0] = 1;
  first_alone.emplace("weight", std::move(weight));
  const runtime::TensorMap told = dense.run("eval", std::move(first_alone));
  CHECK(runtime::to_double(told.at("loss_sum")).data[0] == Approx(losses[0]).epsilon(1e-6));
  CHECK(runtime::to_double(told.at("pixels")).data[0] == counts[0]);
  CHECK(runtime::to_double(told.at("correct_pixels")).data[0] == hits[0]);
}

TEST_CASE("A dense probe learns which patch has which class; without its labels' pixels it would not") {
  // Each patch's feature says its class; labels of 255 are at random places.
  constexpr runtime::DenseShape kShape{.rows = 3, .columns = 3, .height = 6, .image_columns = 6};
  const Points patches = points(60 * 9, 3, .01, "patches");
  std::vector<std::int64_t> labels;
  for (std::size_t image = 0; image < 60; ++image) {
    for (std::size_t p = 0; p < 36; ++p)
      labels.push_back(p % 7 == image % 7 ? 255 : patches.labels[image * 9 + p / 12 * 3 + p % 6 / 2]);
  }
  const runtime::ProbeSet set{patches.rows, labels, 60};
  runtime::ProbeTraining training = quick();
  training.batch = 16;
  const runtime::ProbeOutcome outcome = runtime::train_dense_probe(set, set, 3, false, kShape, training);
  CHECK(outcome.pixel_accuracy > .99);
  CHECK(outcome.mean_iou > .98);
  CHECK(outcome.mean_iou < outcome.pixel_accuracy + 1e-12);
}

TEST_CASE("mIoU is the mean over the classes that occur of what both say over what either says") {
  // Labels by rows, predictions by columns: of class 0 3 of 3 + 1 + 2 pixels, of class 1 4 of 4 + 2 + 1.
  const std::vector<std::int64_t> confusion = {3, 1, 0, 2, 4, 0, 0, 0, 0};
  CHECK(runtime::mean_iou(confusion, 3) == Approx((3.0 / 6 + 4.0 / 7) / 2));
  // A class that is predicted and never there has none.
  const std::vector<std::int64_t> wrong = {3, 1, 0, 0};
  CHECK(runtime::mean_iou(wrong, 2) == Approx((3.0 / 4 + 0) / 2));
  CHECK(runtime::mean_iou(std::vector<std::int64_t>(4), 2) == 0);
}

TEST_CASE("Labels of pixels are made of brightness, or read from masks as large as the network's images") {
  const ir::Shape image = {2, 1, 2};
  ir::Attributes transforms;
  transforms.set("mean", ir::Doubles{0, 0});
  transforms.set("std", ir::Doubles{1, 1});
  // Means of the channels: .3 and .1, 0 and 1.
  const std::vector<float> pixels = {.4F, .2F, .2F, 0, 0, 1, 0, 1};
  const std::vector<std::int64_t> labels = {4, 0};
  CHECK(runtime::threshold_labels({pixels, labels, image, transforms}, .2) ==
        std::vector<std::int64_t>{5, 0, 0, 1});

  const TemporaryFolder folder;
  runtime::HostTensor masks({ir::DType::i64, {3, 1, 2}});
  for (std::size_t i = 0; i < 6; ++i) masks.as<std::int64_t>()[i] = static_cast<std::int64_t>(i);
  runtime::write_npy(folder.file("m.npy"), masks);
  CHECK(runtime::mask_file(folder.file("m.npy"), image, 2) == std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK(message_of<UserError>([&] { runtime::mask_file(folder.file("m.npy"), image, 4); }) ==
        folder.file("m.npy") + ": it has 3 masks, but 4 images are used");
  CHECK(message_of<UserError>([&] { runtime::mask_file(folder.file("m.npy"), {1, 2, 2}, 2); }) ==
        folder.file("m.npy") +
            ": it is i64[3,1,2]; masks must be integers [images,2,2], the size of the network's images");

  runtime::make_folder(folder.file("masks/n1"));
  const auto put = [&](const std::string& name, std::vector<std::uint8_t> grey) {
    runtime::write_file_atomically(folder.file("masks/" + name),
                                   runtime::encode_png({1, 1, 2, std::move(grey)}));
  };
  put("n1/a.png", {7, 255});
  put("b.png", {1, 2});
  CHECK(runtime::mask_folder(folder.file("masks"), {"somewhere/n1/a.jpg", "somewhere/n2/b.jpg"}, image) ==
        std::vector<std::int64_t>{7, 255, 1, 2});
  CHECK_THAT(message_of<UserError>([&] { runtime::mask_folder(folder.file("masks"), {"n1/c.jpg"}, image); }),
             REWIRE_CATCH_CONTAINS(folder.file("masks") + "/c.png"));
  CHECK(runtime::pixel_classes(std::vector<std::int64_t>{7, 255, 1}) == 8);
  CHECK(message_of<UserError>([&] { runtime::pixel_classes(std::vector<std::int64_t>{255}); }) ==
        "no pixel of the masks has a class: all are 255");
}

}  // namespace
}  // namespace rewire::test::probes
