// rewire data bench: measures how many images per second a recipe's data gives, without a network.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <numeric>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/network.h"
#include "cli/streams.h"
#include "runtime/data/vision/image_pipeline.h"
#include "runtime/device/process.h"
#include "runtime/network/data_feed.h"
#include "runtime/network/network.h"

namespace rewire::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct DataBenchRequest {
  runtime::NetworkRequest network;
  std::string split = "train";
  std::int64_t threads = 0, seconds = 5;
  bool json = false;
};

void declare(DataBenchRequest& request, Options& options) {
  declare_network(request.network, options, Options::Need::required);
  options.choice("--split", request.split, {"train", "test"},
                 "train: shuffled and augmented; test: in order, as evaluation sees it");
  options.integer("--threads", request.threads, 1,
                  "number of threads that prepare batches; the recipe's data.threads by default");
  options.integer("--seconds", request.seconds, 1,
                  "how long to load batches, and then how long to read and transform images on one thread");
  options.flag("--json", request.json, "print an object");
  options.example("rewire data bench examples/recipes/fashion_vit.toml", "measure the loader's images/s");
  options.example("rewire data bench examples/recipes/fashion_vit.toml --threads 4 --seconds 10",
                  "measure four threads, for longer");
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Returns the processor time of all threads of this process.
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// The batches that the loader's threads prepared ahead, as in training.
struct Loaded {
  std::int64_t batches = 0, images = 0;
  double seconds = 0, processor = 0;
};

Loaded time_loader(const runtime::DataFeed& data, std::int64_t warm_up, double seconds) {
  const std::unique_ptr<runtime::Loader> loader = data.load();
  runtime::Batch batch;
  for (std::int64_t i = 0; i < warm_up; ++i) loader->next(batch);
  Loaded loaded;
  const double processor = processor_seconds();
  const Clock::time_point start = Clock::now();
  do {
    loader->next(batch);
    const std::span<const float> weights = batch.tensors.at("weight").as<float>();
    loaded.images += std::ranges::count(weights, 1.0F);  // without the padding of evaluation's last batch
    ++loaded.batches;
    loaded.seconds = seconds_since(start);
  } while (loaded.seconds < seconds);
  loaded.processor = processor_seconds() - processor;
  return loaded;
}

const runtime::TransformChain& transforms_of(const runtime::DataFeed& data) {
  return dynamic_cast<const runtime::ImagePipeline&>(data.pipeline()).transforms();
}

/// The images read and transformed on this thread alone, and the time of each part.
struct Alone {
  std::int64_t images = 0, batches = 0;
  double read = 0, transforms = 0, batch_transforms = 0;  // seconds
};

/// Takes images in the order of the first epoch, a few at a time. So it reads the clock rarely, and the
/// pixels stay in the cache.
Alone time_alone(const runtime::DataFeed& data, bool training, const runtime::Recipe& recipe,
                 double seconds) {
  const bool skips = recipe.data.unreadable == "skip";
  constexpr std::size_t kTogether = 8;
  const runtime::ImageSource& source = data.images("data bench");
  const runtime::TransformChain& transforms = transforms_of(data);
  std::vector<std::uint32_t> order(static_cast<std::size_t>(source.count()));
  std::iota(order.begin(), order.end(), 0U);
  if (training) order = source.order(static_cast<std::uint64_t>(recipe.seed), 0);
  runtime::ReadBuffer buffers[kTogether];
  runtime::StoredImage images[kTogether];
  std::vector<float> out(static_cast<std::size_t>(ir::element_count(transforms.shape())));
  Alone alone;
  const Clock::time_point start = Clock::now();
  for (std::size_t at = 0; at == 0 || seconds_since(start) < seconds; at += kTogether) {
    const auto sample = [&](std::size_t i) {
      return static_cast<std::int64_t>(order[(at + i) % order.size()]);
    };
    const Clock::time_point read = Clock::now();
    for (std::size_t i = 0; i < kTogether; ++i) {
      images[i] = {};
      try {
        images[i] = source.decode(sample(i), buffers[i], [&](std::int64_t height, std::int64_t width) {
          return transforms.looks_at(height, width, 0, sample(i));
        });
      } catch (const UserError&) {
        if (!skips) throw;
      }
    }
    alone.read += seconds_since(read);
    const Clock::time_point change = Clock::now();
    for (std::size_t i = 0; i < kTogether; ++i) {
      if (images[i].pixels.empty()) continue;
      transforms.apply(images[i], out, 0, sample(i));
      ++alone.images;
    }
    alone.transforms += seconds_since(change);
  }
  return alone;
}

/// Times MixUp and CutMix on a batch of zeros.
void time_batches(const runtime::DataFeed& data, std::int64_t classes, double seconds, Alone& alone) {
  const runtime::TransformChain& transforms = transforms_of(data);
  if (!transforms.changes_batches()) return;
  std::vector<float> images(static_cast<std::size_t>(data.batch() * ir::element_count(transforms.shape())));
  std::vector<float> targets(static_cast<std::size_t>(data.batch() * classes));
  const Clock::time_point start = Clock::now();
  do {
    transforms.apply_to_batch(images, targets, data.batch(), 0, alone.batches++);
    alone.batch_transforms = seconds_since(start);
  } while (alone.batch_transforms < seconds);
}

struct DataBenchResult {
  Loaded loaded;
  Alone alone;
  std::int64_t count = 0, batch = 0, threads = 0, prefetch = 0;

  double rate() const { return static_cast<double>(loaded.images) / loaded.seconds; }
  double rate_a_core() const { return static_cast<double>(loaded.images) / loaded.processor; }
  double batch_ms() const { return 1e3 * loaded.seconds / static_cast<double>(loaded.batches); }
  double read_us() const { return 1e6 * alone.read / static_cast<double>(alone.images); }
  double transforms_us() const { return 1e6 * alone.transforms / static_cast<double>(alone.images); }
  double batch_transforms_us() const {
    return alone.batches == 0 ? 0 : 1e6 * alone.batch_transforms / static_cast<double>(alone.batches * batch);
  }
};

nlohmann::ordered_json to_json(const DataBenchRequest& request, const DataBenchResult& result) {
  return {{"split", request.split},
          {"images", result.count},
          {"batch", result.batch},
          {"threads", result.threads},
          {"prefetch", result.prefetch},
          {"cores", runtime::usable_cores()},
          {"loader",
           {{"seconds", result.loaded.seconds},
            {"processor_seconds", result.loaded.processor},
            {"batches", result.loaded.batches},
            {"images", result.loaded.images},
            {"images_per_s", result.rate()},
            {"images_per_core_s", result.rate_a_core()},
            {"batch_ms", result.batch_ms()}}},
          {"one_thread",
           {{"images", result.alone.images},
            {"read_us", result.read_us()},
            {"transforms_us", result.transforms_us()},
            {"batch_transforms_us", result.batch_transforms_us()}}}};
}

void print_table(const DataBenchRequest& request, const DataBenchResult& result) {
  print("{}: {} images, batches of {}, {} threads, {} batches ahead\n\n", request.split, result.count,
        result.batch, result.threads, result.prefetch);
  print("loader      {:10.1f} images/s {:10.1f} images/s per core {:9.2f} ms per batch\n", result.rate(),
        result.rate_a_core(), result.batch_ms());
  print("one thread  {:10.2f} us to read an image {:10.2f} us to transform it", result.read_us(),
        result.transforms_us());
  if (result.alone.batches > 0) print(" {:9.2f} us to mix it", result.batch_transforms_us());
  print("\n");
}

void run(const DataBenchRequest& request) {
  runtime::Network network = runtime::resolve_network(request.network);
  runtime::Recipe& recipe = network.recipe;
  if (request.threads > 0)
    runtime::apply_setting(recipe, fmt::format("data.threads={}", request.threads),
                           fmt::format("--threads {}", request.threads));
  const bool training = request.split == "train";
  const runtime::NetworkFace face =
      runtime::network_face(runtime::network_source(network).forward(1), recipe.objective);
  const runtime::DataFeed data(recipe, training ? runtime::Split::train : runtime::Split::test, face);
  data.images("data bench");
  DataBenchResult result;
  result.count = data.count();
  result.batch = data.batch();
  result.threads = recipe.data.threads;
  result.prefetch = recipe.data.prefetch;
  const auto seconds = static_cast<double>(request.seconds);
  result.loaded = time_loader(data, result.prefetch, seconds);
  result.alone = time_alone(data, training, recipe, seconds);
  const auto target = std::ranges::find(face.inputs, "target", &programs::Input::name);
  const std::int64_t classes = target == face.inputs.end() ? 0 : target->type.shape[1];
  time_batches(data, classes, std::min(seconds, 1.0), result.alone);
  request.json ? print_json(to_json(request, result)) : print_table(request, result);
}

}  // namespace

Command data_bench_command() {
  return make_command<DataBenchRequest>(
      "data bench", "measure how many images per second a recipe's data gives", declare, run);
}

}  // namespace rewire::cli
