// rewire data bench: measures how many images per second a recipe's data gives, without a network.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/data_times.h"
#include "cli/json.h"
#include "cli/network.h"
#include "cli/streams.h"
#include "runtime/device/process.h"
#include "runtime/network/data_feed.h"
#include "runtime/network/network.h"

namespace rewire::cli {
namespace {

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
  options.integer(
      "--threads", request.threads, 1,
      "number of threads that prepare batches; by default the recipe's data.threads, or 1 if that is 0");
  options.integer("--seconds", request.seconds, 1,
                  "how long to load batches, and then how long to read and transform images on one thread");
  options.flag("--json", request.json, "print an object");
  options.example("rewire data bench examples/recipes/fashion_vit.toml", "measure the loader's images/s");
  options.example("rewire data bench examples/recipes/fashion_vit.toml --threads 4 --seconds 10",
                  "measure four threads, for longer");
}

struct DataBenchResult {
  LoaderTimes loaded;
  AloneTimes alone;
  std::int64_t count = 0, batch = 0, threads = 0, prefetch = 0;

  double rate() const { return static_cast<double>(loaded.images) / loaded.seconds; }
  double rate_a_core() const { return static_cast<double>(loaded.images) / loaded.processor; }
  double batch_ms() const { return 1e3 * loaded.seconds / static_cast<double>(loaded.batches); }
  double read_us() const { return 1e6 * alone.read / static_cast<double>(alone.images); }
  double decode_us() const { return 1e6 * alone.decode / static_cast<double>(alone.images); }
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
            {"decode_us", result.decode_us()},
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
  if (result.alone.decode > 0) print(" {:9.2f} us of the reading to decode it", result.decode_us());
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
  result.threads = data.threads();
  result.prefetch = recipe.data.prefetch;
  const auto seconds = static_cast<double>(request.seconds);
  result.loaded = time_loader(data, result.prefetch, seconds);
  result.alone = time_alone(data, face, training, recipe, seconds);
  request.json ? print_json(to_json(request, result)) : print_table(request, result);
}

}  // namespace

Command data_bench_command() {
  return make_command<DataBenchRequest>(
      "data bench", "measure how many images per second a recipe's data gives", declare, run);
}

}  // namespace rewire::cli
