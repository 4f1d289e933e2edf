// rewire sample: draws images from noise with a run of diffusion, as a picture and as numbers; or text with a run of
// language (cli/sample_text.cpp).
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
#include "cli/sample_text.h"
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
  runtime::TrainedRequest trained;
  std::string sampler = "euler", classes = "all", guidance, output, npy;
  std::int64_t images = 16, steps = 50, seed = 0;
  TextRequest text;
  EngineRequest engine;

  /// Returns the first option of images that is not at its default; "" if all are.
  std::string given_of_images() const {
    const SampleCommandRequest off;
    if (images != off.images) return "--images";
    if (steps != off.steps) return "--steps";
    if (sampler != off.sampler) return "--sampler";
    if (classes != off.classes) return "--class";
    if (!guidance.empty()) return "--guidance";
    if (!output.empty()) return "--output";
    return npy.empty() ? "" : "--npy";
  }
};

void declare(SampleCommandRequest& request, Options& options) {
  runtime::TrainedRequest& trained = request.trained;
  options
      .text("RUN", trained.network.model,
            "a run folder with objective.name=diffusion or next_token; for text also a recipe (.toml), a "
            "module "
            "(.rir) or a zoo model, with --weights",
            Options::Need::required)
      .takes(Values::trained);
  declare_text(request.text, options);
  options.integer("--images", request.images, 1, "number of images");
  options.integer("--steps", request.steps, 1, "number of steps from noise to images");
  options.choice("--sampler", request.sampler, {"euler", "heun"},
                 "euler: one evaluation of the network per step; heun: two");
  options.text("--class", request.classes, "the class of all images, or all: one class after the other")
      .takes([] { return std::vector<Offer>{{"all", "one class after the other"}}; });
  options.text("--guidance", request.guidance,
               "how far velocities move from no class towards the class; 1, the default, is the class alone");
  options.integer("--seed", request.seed, 0, "seed of the images' noise, or of the text");
  options
      .text("--checkpoint", trained.checkpoint,
            "best, last or the name of a checkpoint of the run (0003-00002811); the last by default")
      .takes(Values::checkpoint);
  options
      .text("--weights", trained.weights,
            "with next_token: a safetensors file instead of the run's last checkpoint")
      .takes(Values::file, {".safetensors"});
  options.flag("--ema", trained.averages, "use the moving averages of the run's weights (train.ema)");
  options
      .list("--set", trained.network.settings,
            "section.key=value: set or override a key of the recipe; repeatable")
      .takes(Values::setting);
  options.text("--output", request.output, "the .png file to write the images to")
      .takes(Values::file, {".png"});
  options
      .text("--npy", request.npy,
            "an .npy file for the images too, f32 [images, channels, height, width] in the network's value "
            "range")
      .takes(Values::file, {".npy"});
  declare_plugin_path(trained.network.plugin_path, options);
  declare_trust(trained.network.trust, options);
  declare_engine(request.engine, options);
  options.example("rewire sample runs/sit-none-s0 --ema --guidance 2 --output grid.png",
                  "draw 16 images, guided towards their classes");
  options.example("rewire sample runs/sit-none-s0 --class 3 --images 4 --steps 20 --output 3.png",
                  "draw four images of class 3 in 20 steps");
  options.example("rewire sample runs/gpt2_nano-none-s0 --prompt '=head1' --tokens 100 --temperature 0.8",
                  "continue a text by 100 tokens");
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

void sample_images(const SampleCommandRequest& request, runtime::TrainedNetwork& trained) {
  const std::string engine_name = engine_of(request.engine);
  check_counts(request);
  const std::optional<double> guidance = guidance_of(request);
  if (request.output.empty()) user_error("sample: images need --output FILE.png");
  const runtime::Network& network = trained.network;
  const runtime::Recipe& recipe = network.recipe;
  const runtime::NetworkSource source = runtime::network_source(network);
  runtime::SampleRequest samples{.images = request.images,
                                 .steps = request.steps,
                                 .heun = request.sampler == "heun",
                                 .guidance = guidance,
                                 .seed = static_cast<std::uint64_t>(request.seed)};
  samples.classes = runtime::label_classes(runtime::network_face(source.forward(1), recipe.objective).inputs);
  samples.label = class_of(request, samples.classes);
  const std::vector<std::string> read = {request.trained.network.model};
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

void refuse(std::string_view option, const runtime::Recipe& recipe) {
  if (!option.empty())
    user_error("sample: {} has no meaning for a run with objective.name={}: drop it", option,
               recipe.objective.name);
}

void run(const SampleCommandRequest& request) {
  if (request.trained.weights.empty() && !std::filesystem::is_directory(request.trained.network.model))
    user_error("sample: {} is not a run folder; a network of language may have --weights",
               request.trained.network.model);
  runtime::TrainedNetwork trained = runtime::find_trained(request.trained);
  const runtime::Recipe& recipe = trained.network.recipe;
  const auto& row = ir::find_row(programs::objectives(), "objective.name", recipe.objective.name);
  if (row.continues) {
    refuse(request.given_of_images(), recipe);
    sample_text(request.text, trained, request.engine, static_cast<std::uint64_t>(request.seed));
    return;
  }
  if (!row.samples) {
    user_error(
        "sample: {} is a run with objective.name={}, which draws no samples; give a run of diffusion or "
        "next_token",
        request.trained.network.model, row.name);
  }
  if (!trained.run) user_error("sample: {} is not a run folder", request.trained.network.model);
  refuse(request.text.given(), recipe);
  sample_images(request, trained);
}

}  // namespace

Command sample_command() {
  return make_command<SampleCommandRequest>("sample",
                                            "draw images or text with a run of diffusion or language",
                                            declare, run, "fewer images (--images N)");
}

}  // namespace rewire::cli
