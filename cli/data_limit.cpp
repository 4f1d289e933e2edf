#include "cli/data_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string_view>
#include <utility>

#include "cli/streams.h"
#include "cli/summary.h"
#include "runtime/device/process.h"

namespace rewire::cli {
namespace {

constexpr double kDataSeconds = 2;    // each for the loader and for its parts on one thread
constexpr double kShareWaited = 0.1;  // of a step's time: less is noise
constexpr std::int64_t kWarmUpSteps = 2;

struct LimitPart {
  std::string_view name;
  double seconds;  // of one thread, for all of alone's images
};

std::array<LimitPart, 4> parts_of(const DataLimit& limit) {
  const AloneTimes& alone = limit.alone;
  return {{{"read", alone.read - alone.decode},
           {"decode", alone.decode},
           {"transform", alone.transforms},
           {"mix", limit.mix_seconds}}};
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Runs steps on the loader's batches, as training does: a device gets a step before it has finished the last one.
void time_steps(runtime::Engine& engine, const ir::Module& module,
                const std::vector<runtime::TimedProgram>& programs, const BenchData& data, std::int64_t steps,
                DataLimit& limit) {
  const std::unique_ptr<runtime::Loader> loader = data.feed.load();
  runtime::Batch batch;
  std::vector<runtime::Engine::Ticket> before, tickets;
  const auto wait = [&] {
    for (const runtime::Engine::Ticket ticket : before) engine.results(ticket);
    before.clear();
  };
  double began = 0;
  for (std::int64_t step = 0; step < kWarmUpSteps + steps; ++step) {
    if (step == kWarmUpSteps) began = now(), limit.waited = 0;
    for (const runtime::TimedProgram& program : programs) {
      for (std::int64_t i = 0; i < program.times; ++i) {
        const ir::Function& function = module.function(program.function);
        if (function.arguments.empty()) {
          tickets.push_back(engine.submit(program.function, {}));
          continue;
        }
        const double asked = now();
        loader->next(batch);
        limit.waited += now() - asked;
        runtime::TensorMap inputs = runtime::take_inputs(function, batch);
        tickets.push_back(engine.submit(program.function, inputs));
        runtime::put_back(std::move(inputs), batch);
      }
    }
    wait();
    before = std::exchange(tickets, {});
  }
  wait();
  limit.seconds = (now() - began) / static_cast<double>(steps);
  limit.waited /= static_cast<double>(steps);
}

}  // namespace

BenchData::BenchData(const runtime::Network& network, const runtime::Recipe& with, const std::string& engine)
    : recipe(with),
      face(runtime::training_face(runtime::network_source(network), recipe.objective)),
      feed(recipe, runtime::Split::train, face, /*trains=*/true, {}, runtime::target_of(engine)) {
  feed.images("bench --data");
}

DataLimit measure_data(runtime::Engine& engine, const ir::Module& module,
                       const std::vector<runtime::TimedProgram>& programs, const BenchData& data,
                       const runtime::RoundTimes& fed, std::int64_t steps) {
  DataLimit limit;
  limit.threads = data.feed.threads();
  limit.cores = runtime::usable_cores();
  limit.prefetch = data.recipe.data.prefetch;
  limit.step_seconds = fed.median;
  for (const runtime::TimedProgram& program : programs) {
    if (program.inputs.empty()) continue;
    limit.images += program.times * data.feed.batch();
    for (const auto& [name, tensor] : program.inputs)
      limit.input_bytes += program.times * static_cast<std::int64_t>(tensor.bytes().size());
  }
  limit.alone = time_alone(data.feed, data.face, /*training=*/true, data.recipe, kDataSeconds);
  if (limit.alone.batches > 0)
    limit.mix_seconds = limit.alone.batch_transforms * static_cast<double>(limit.alone.images) /
                        static_cast<double>(limit.alone.batches * data.feed.batch());
  limit.loader = time_loader(data.feed, limit.prefetch, kDataSeconds);
  time_steps(engine, module, programs, data, steps, limit);
  return limit;
}

std::string verdict(const DataLimit& limit) {
  const double waited = limit.waited / limit.seconds;
  if (waited < kShareWaited)
    return fmt::format("the steps limit training: the data alone give {:.3g} times their images/s",
                       limit.loader_rate() / limit.step_rate());
  const std::array<LimitPart, 4> parts = parts_of(limit);
  double all = 0;
  for (const LimitPart& part : parts) all += part.seconds;
  const LimitPart& longest = *std::ranges::max_element(parts, {}, &LimitPart::seconds);
  std::string advice = limit.threads < limit.cores ? fmt::format("raise data.threads to {}", limit.cores)
                                                   : std::string("it needs more cores");
  if (longest.name == "decode") advice += ", or set data.cache";
  return fmt::format(
      "the data limit training, {:.0f} % of which is spent waiting for them; {} takes {:.0f} % of their "
      "time: {}",
      100 * waited, longest.name, 100 * longest.seconds / all, advice);
}

void print_data(const DataLimit& limit) {
  print("{:<9} {} thread{} on {} core{}; a step takes {:.2f} MB of inputs\n", "data", limit.threads,
        limit.threads == 1 ? "" : "s", limit.cores, limit.cores == 1 ? "" : "s",
        megabytes(limit.input_bytes));
  for (const LimitPart& part : parts_of(limit)) {
    if (part.seconds == 0) continue;
    print("  {:<9} {:>10.1f} images/s, by one thread's {:.2f} us an image\n", part.name,
          limit.rate_of(part.seconds), 1e6 * part.seconds / static_cast<double>(limit.alone.images));
  }
  print("  {:<9} {:>10.1f} images/s: all of these, as the threads do it\n", "loader", limit.loader_rate());
  print("  {:<9} {:>10.1f} images/s, with the copy of its inputs\n", "step", limit.step_rate());
  print("  {:<9} {:>10.1f} images/s: steps on the data, {:.2f} ms each, {:.2f} ms of them waiting\n", "both",
        limit.rate(), 1e3 * limit.seconds, 1e3 * limit.waited);
  print("{:<9} {}\n", "limit", verdict(limit));
}

nlohmann::ordered_json to_json(const DataLimit& limit) {
  nlohmann::ordered_json json = {{"threads", limit.threads},
                                 {"cores", limit.cores},
                                 {"prefetch", limit.prefetch},
                                 {"images_per_step", limit.images},
                                 {"input_bytes", limit.input_bytes}};
  for (const LimitPart& part : parts_of(limit))
    json[fmt::format("{}_us", part.name)] = 1e6 * part.seconds / static_cast<double>(limit.alone.images);
  json["loader_images_per_s"] = limit.loader_rate();
  json["step_images_per_s"] = limit.step_rate();
  json["images_per_s"] = limit.rate();
  json["waited_share"] = limit.waited / limit.seconds;
  json["verdict"] = verdict(limit);
  return json;
}

}  // namespace rewire::cli
