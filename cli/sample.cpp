// rewire sample: draws images from noise with a run of diffusion, as a picture and as numbers.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/engine.h"
#include "cli/network.h"
#include "cli/program.h"
#include "cli/streams.h"
#include "ir/error.h"
#include "programs/objective.h"
#include "runtime/data/vision/picture_grid.h"
#include "runtime/exec/make_engine.h"
#include "runtime/io/files.h"
#include "runtime/io/npy.h"
#include "runtime/measure/sample.h"
#include "runtime/network/data_feed.h"
#include "runtime/network/weights.h"
#include "runtime/run/run_folder.h"
#include "runtime/run/trained_network.h"

namespace rewire::cli {
namespace {

constexpr std::int64_t kMostSamples = 100'000, kMostSampleSteps = 100'000;
constexpr std::int64_t kSampleBatch = 64;
constexpr std::int64_t kMostColumns = 16;

struct SampleCommandRequest {
  runtime::NetworkRequest network;
  std::string checkpoint, sampler = "euler", classes = "all", guidance, output, npy;
  bool averages = false;
  std::int64_t images = 16, steps = 50, seed = 0;
  EngineRequest engine;
};

void declare(SampleCommandRequest& request, Options& options) {
  options
      .text("RUN", request.network.model, "a run folder with objective.name=diffusion",
            Options::Need::required)
      .takes(Values::run);
  options.integer("--images", request.images, 1, "number of images");
  options.integer("--steps", request.steps, 1, "number of steps from noise to images");
  options.choice("--sampler", request.sampler, {"euler", "heun"},
                 "euler: one evaluation of the network per step; heun: two");
  options.text("--class", request.classes, "the class of all images, or all: one class after the other")
      .takes([] { return std::vector<Offer>{{"all", "one class after the other"}}; });
  options.text("--guidance", request.guidance,
               "how far velocities move from no class towards the class; 1, the default, is the class alone");
  options.integer("--seed", request.seed, 0, "seed of the noise that the images begin with");
  options
      .text("--checkpoint", request.checkpoint,
            "best, last or the name of a checkpoint of the run (0003-00002811); the last by default")
      .takes(Values::checkpoint);
  options.flag("--ema", request.averages, "use the moving averages of the run's weights (train.ema)");
  options.text("--output", request.output, "the .png file to write the images to", Options::Need::required)
      .takes(Values::file, {".png"});
  options
      .text("--npy", request.npy,
            "an .npy file for the images too, f32 [images, channels, height, width] in the network's value "
            "range")
      .takes(Values::file, {".npy"});
  declare_plugin_path(request.network.plugin_path, options);
  declare_trust(request.network.trust, options);
  declare_engine(request.engine, options);
  options.example("rewire sample runs/sit-none-s0 --ema --guidance 2 --output grid.png",
                  "draw 16 images, guided towards their classes");
  options.example("rewire sample runs/sit-none-s0 --class 3 --images 4 --steps 20 --output 3.png",
                  "draw four images of class 3 in 20 steps");
}

std::optional<double> guidance_of(const SampleCommandRequest& request) {
  if (request.guidance.empty()) return std::nullopt;
  double value = 0;
  const char *begin = request.guidance.data(), *end = begin + request.guidance.size();
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error != std::errc() || stop != end || !std::isfinite(value) || value < 0 || value > 1000)
    user_error("sample: --guidance {} is not a number from 0 to 1000", request.guidance);
  return value;
}

/// Returns the class of all images, or -1 if the images take the classes in turn.
std::int64_t class_of(const SampleCommandRequest& request, std::int64_t classes) {
  if (request.classes == "all") return -1;
  std::int64_t value = -1;
  const char *begin = request.classes.data(), *end = begin + request.classes.size();
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error != std::errc() || stop != end || value < 0 || value >= classes) {
    user_error("sample: --class {} is not a class of the network: it takes 0 to {}, or all", request.classes,
               classes - 1);
  }
  return value;
}

void check_counts(const SampleCommandRequest& request) {
  if (request.images > kMostSamples)
    user_error("sample: --images {} is more than {}", request.images, kMostSamples);
  if (request.steps > kMostSampleSteps)
    user_error("sample: --steps {} is more than {}", request.steps, kMostSampleSteps);
}

/// Returns the columns of the picture: one per class if
/// classes are in turn and fit, else about the number of rows.
std::int64_t columns_of(const runtime::SampleRequest& samples) {
  const auto side = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(samples.images))));
  const bool by_class =
      samples.label < 0 && samples.classes <= kMostColumns && samples.images >= samples.classes;
  return by_class ? samples.classes : std::min(side, kMostColumns);
}

void run(const SampleCommandRequest& request) {
  const std::string engine_name = engine_of(request.engine);
  check_counts(request);
  const std::optional<double> guidance = guidance_of(request);
  if (!std::filesystem::is_directory(request.network.model))
    user_error("sample: {} is not a run folder; train one with objective.name=diffusion",
               request.network.model);
  runtime::TrainedNetwork trained =
      runtime::find_trained({request.network, "", request.checkpoint, request.averages});
  const runtime::Network& network = trained.network;
  const runtime::Recipe& recipe = network.recipe;
  const runtime::NetworkSource source = runtime::network_source(network);
  const auto& row = ir::find_row(programs::objectives(), "objective.name", recipe.objective.name);
  if (!row.samples) {
    user_error("sample: {} is a run with objective.name={}, which draws no samples; give a run of diffusion",
               trained.run->path(), row.name);
  }
  runtime::SampleRequest samples{.images = request.images,
                                 .steps = request.steps,
                                 .heun = request.sampler == "heun",
                                 .guidance = guidance,
                                 .seed = static_cast<std::uint64_t>(request.seed)};
  samples.classes = runtime::label_classes(runtime::network_face(source.forward(1), recipe.objective).inputs);
  samples.label = class_of(request, samples.classes);
  const std::vector<std::string> read = {request.network.model};
  check_output(request.output, read);
  if (!request.npy.empty()) check_output(request.npy, read, "--npy");
  check_different({{"--output", request.output}, {"--npy", request.npy}});

  ir::Module module = runtime::make_sample_module(
      source, recipe.objective, std::min(samples.images, kSampleBatch),
      {.guided = guidance.has_value(), .corrects = samples.heun}, trained.epoch, recipe.train.epochs);
  runtime::require_precision(engine_name, module);
  const runtime::TensorMap weights = runtime::read_trained_weights(trained, module);
  runtime::Tuner tuner = runtime::make_tuner(engine_name, {runtime::recorded_choices(*trained.run), false});
  std::vector<std::string> programs = {"sample_step"};
  if (samples.heun) programs.emplace_back("sample_correct");
  runtime::make_choices(module, programs, tuner);
  const std::unique_ptr<runtime::Engine> engine =
      runtime::make_engine(engine_name, module, {static_cast<int>(recipe.train.threads), tuner.record()});
  runtime::start_state(*engine, module, weights, static_cast<std::uint64_t>(recipe.seed));
  const runtime::HostTensor images = runtime::draw_samples(*engine, module, samples);
  if (!std::ranges::all_of(images.as<const float>(), [](float x) { return std::isfinite(x); })) {
    user_error("sample: {}: a sample is not finite: the network has diverged, or --guidance is too large",
               trained.weights.file);
  }
  const std::vector<std::byte> png = runtime::encode_png(
      runtime::picture_grid(images, columns_of(samples), runtime::transform_values(recipe)));
  runtime::write_file_atomically(request.output, png);
  if (!request.npy.empty()) runtime::write_npy(request.npy, images);
  print("{} images in {}\n", samples.images, request.output);
}

}  // namespace

Command sample_command() {
  return make_command<SampleCommandRequest>("sample", "draw images from noise with a run of diffusion",
                                            declare, run, "fewer images (--images N)");
}

}  // namespace rewire::cli
