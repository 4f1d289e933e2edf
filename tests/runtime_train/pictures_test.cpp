// What evaluations draw: of masked autoencoders what was seen and what was made of it, of diffusion samples.
#include <algorithm>
#include <filesystem>
#include <numeric>

#include "ir/evaluate.h"
#include "ir/text.h"
#include "models/model.h"
#include "runtime/data/vision/image_file.h"
#include "runtime/data/vision/picture_grid.h"
#include "runtime/io/files.h"
#include "runtime/network/data_feed.h"
#include "runtime/network/run_programs.h"
#include "tests/runtime_train/step_watch.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

ir::Selection small_network(const std::string& family) {
  ir::Selection model{family};
  model.set("image", std::int64_t{8}).set("patch", std::int64_t{4}).set("channels", std::int64_t{1});
  model.set("dim", std::int64_t{8}).set("depth", std::int64_t{2}).set("heads", std::int64_t{2});
  if (family == "mae") model.set("mask_ratio", 0.5).set("decoder_dim", std::int64_t{8});
  if (family == "mae") model.set("decoder_depth", std::int64_t{1}).set("decoder_heads", std::int64_t{1});
  if (family == "vit" || family == "sit") model.set("classes", std::int64_t{10});
  return model;
}

TrainRequest drawing(const std::string& family, const std::string& objective,
                     const std::vector<std::string>& settings = {}) {
  TrainRequest request;
  std::vector<std::string> all = {"objective.name=" + objective};
  all.insert(all.end(), settings.begin(), settings.end());
  request.recipe = parse_recipe(R"(
seed = 3
[data]
format = "synthetic"
count = 24
[transforms]
mean = [0.4]
std = [0.3]
[optimizer]
lr = 0.01
[train]
batch = 8
epochs = 2
[eval]
batch = 10
)",
                                "test.toml", all);
  request.engine = engine_names().front();
  request.choices.autotune = false;
  request.network.seed = 3;
  request.network.forward = [model = small_network(family)](std::int64_t batch) {
    return models::build(model, batch);
  };
  return request;
}

DrawnImage read_picture(const std::string& path) {
  DrawnImage image{1, 0, 0, {}};
  const ImageSize size = decode_image(read_file(path), path, 1, image.pixels);
  image.height = size.height;
  image.width = size.width;
  return image;
}

/// The first columns of a sheet, of cells of 96 pixels.
std::vector<std::uint8_t> columns_of(const DrawnImage& sheet, std::int64_t columns) {
  constexpr std::int64_t kCell = 96, kGap = 4;
  std::vector<std::uint8_t> pixels;
  for (std::int64_t y = 0; y < sheet.height; ++y) {
    const auto row = sheet.pixels.begin() + y * sheet.width;
    pixels.insert(pixels.end(), row, row + columns * (kCell + kGap));
  }
  return pixels;
}

TEST_CASE(
    "An evaluation of a masked autoencoder draws each image, what was seen of it and what was made of it") {
  const test::TemporaryFolder folder;
  const std::string run = folder.file("run");
  StepWatch seen;
  const TrainRequest request = drawing("mae", "mae", {"eval.pictures=3"});
  train(request, run, OutFolder::exact, seen);
  const DrawnImage first = read_picture(run + "/pictures/epoch-0001.png"),
                   second = read_picture(run + "/pictures/epoch-0002.png");
  CHECK(first.height == 3 * 96 + 4 * 4);
  CHECK(first.width == 4 * 96 + 5 * 4);
  CHECK(first.pixels != second.pixels);

  // What was seen: the patches with the smaller numbers, the rest the mean of the data, which is 0.
  const NetworkFace face = network_face(request.network.forward(1), request.recipe.objective);
  const DataFeed data(request.recipe, Split::test, face);
  Batch batch;
  data.load()->next(batch);
  const HostTensor& image = batch.tensors.at("image");
  const auto noise = batch.tensors.at("noise").as<float>();
  HostTensor masked = image.clone();
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t p = 0; p < 4; ++p) {
      const auto own = noise.subspan(i * 4, 4);
      const auto smaller = std::ranges::count_if(own, [&](float x) { return x < own[p]; });
      if (smaller < 2) continue;
      for (std::size_t y = 0; y < 4; ++y) {
        for (std::size_t x = 0; x < 4; ++x)
          masked.as<float>()[i * 64 + (p / 2 * 4 + y) * 8 + p % 2 * 4 + x] = 0;
      }
    }
  }
  std::vector<HostTensor> columns;
  columns.push_back(image.clone());
  columns.push_back(std::move(masked));
  const DrawnImage want = picture_rows(columns, 3, transform_values(request.recipe));
  CHECK(columns_of(first, 2) == columns_of(want, 2));
  CHECK(columns_of(second, 2) == columns_of(want, 2));
}

TEST_CASE("The prediction is drawn in the pixels' own numbers, and with what was seen in its place") {
  ir::Module module = models::build(small_network("mae"), 2);
  CHECK(programs::add_pictures_program(module, {"mae"}, 2, false) ==
        std::vector<std::string>{"original", "masked", "predicted", "reconstructed"});
  ir::EvalState state;
  double next = 0.3;
  for (const ir::Parameter& p : module.parameters) {
    ir::Tensor tensor(p.type);
    for (double& x : tensor.data) x = next = std::fmod(next * 1.7 + 0.31, 1.0) - 0.4;
    state.tensors.emplace(p.name, std::move(tensor));
  }
  ir::Tensor image({ir::DType::f32, {2, 1, 8, 8}}), noise({ir::DType::f32, {2, 4}});
  for (std::size_t i = 0; i < 128; ++i) image.data[i] = std::sin(static_cast<double>(i * i));
  for (std::size_t i = 0; i < 8; ++i) noise.data[i] = static_cast<double>(i * 5 % 8) / 8;
  const auto got = ir::evaluate(module, module.function("pictures"), {image, noise}, state);
  const auto forward = ir::evaluate(module, module.function("forward"), {image, noise}, state);
  for (std::size_t i = 0; i < 128; ++i) {
    CAPTURE(i);
    const std::size_t of = i / 64, y = i % 64 / 8, x = i % 8, patch = y / 4 * 2 + x / 4;
    double mean = 0, variance = 0;
    const auto pixel = [&](std::size_t k) {
      return image.data[of * 64 + (patch / 2 * 4 + k / 4) * 8 + patch % 2 * 4 + k % 4];
    };
    for (std::size_t k = 0; k < 16; ++k) mean += pixel(k) / 16;
    for (std::size_t k = 0; k < 16; ++k) variance += (pixel(k) - mean) * (pixel(k) - mean) / 15;
    const double predicted = forward[0].data[(of * 4 + patch) * 16 + y % 4 * 4 + x % 4];
    const double raw = predicted * std::sqrt(variance + 1e-6) + mean;
    CHECK(got[2].data[i] == Approx(raw).epsilon(1e-9));
    CHECK(got[3].data[i] == Approx(forward[1].data[of * 4 + patch] > 0 ? raw : image.data[i]).epsilon(1e-9));
  }
}

TEST_CASE(
    "A resumed run draws what it would have drawn without a stop, and nothing of what it has not reached") {
  const std::string family = GENERATE(as<std::string>{}, "mae", "sit");
  CAPTURE(family);
  const std::string objective = family == "mae" ? "mae" : "diffusion";
  const std::vector<std::string> settings = {"train.ema=0.9"};
  const test::TemporaryFolder folder;
  StepWatch seen;
  const std::string whole = folder.file("whole"), stopped = folder.file("stopped");
  train(drawing(family, objective, settings), whole, OutFolder::exact, seen);
  seen.step = 0;
  TrainRequest first = drawing(family, objective, settings);
  first.stop_signal = [&] { return seen.step >= 4 ? 15 : 0; };  // in the second epoch of three steps
  train(first, stopped, OutFolder::exact, seen);
  CHECK(std::filesystem::exists(stopped + "/pictures/epoch-0001.png"));
  CHECK_FALSE(std::filesystem::exists(stopped + "/pictures/epoch-0002.png"));
  write_file_atomically(stopped + "/pictures/epoch-0007.png",
                        std::string_view("of a checkpoint that was removed"));
  write_file_atomically(stopped + "/pictures/mine.png", std::string_view("another's"));
  resume_training(drawing(family, objective, settings), stopped, seen);
  for (const char* name : {"/pictures/epoch-0001.png", "/pictures/epoch-0002.png"})
    CHECK(read_file(stopped + name) == read_file(whole + name));
  CHECK_FALSE(std::filesystem::exists(stopped + "/pictures/epoch-0007.png"));
  CHECK(std::filesystem::exists(stopped + "/pictures/mine.png"));
}

TEST_CASE("Nothing is drawn of classifiers, nor where no pictures are asked for, and a step stays as it is") {
  const test::TemporaryFolder folder;
  StepWatch seen;
  train(drawing("vit", "supervised", {"eval.pictures=4"}), folder.file("vit"), OutFolder::exact, seen);
  CHECK_FALSE(std::filesystem::exists(folder.file("vit/pictures")));
  train(drawing("mae", "mae", {"eval.pictures=0"}), folder.file("mae"), OutFolder::exact, seen);
  CHECK_FALSE(std::filesystem::exists(folder.file("mae/pictures")));
  for (const std::string family : {"mae", "sit"}) {
    CAPTURE(family);
    const TrainRequest request = drawing(family, family == "mae" ? "mae" : "diffusion");
    const auto step = [&](std::int64_t pictures) {
      RunPrograms programs =
          make_run_programs(request.network, train_options(request.recipe, 3),
                            {.batch = 8, .eval_batch = 10, .epochs = 2, .pictures = pictures});
      std::erase_if(programs.module.functions, [](const ir::Function& f) { return f.name != "step"; });
      return ir::print(programs.module);
    };
    CHECK(step(0) == step(8));
  }
}

}  // namespace
}  // namespace rewire::runtime
