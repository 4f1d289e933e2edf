#include "cli/data_times.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <numeric>

#include "runtime/data/vision/image_pipeline.h"

namespace rewire::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Returns the processor time of all threads of this process.
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

const runtime::TransformChain& transforms_of(const runtime::DataFeed& data) {
  return dynamic_cast<const runtime::ImagePipeline&>(data.pipeline()).transforms();
}

/// Times MixUp and CutMix on a batch of zeros.
void time_batches(const runtime::DataFeed& data, std::int64_t classes, double seconds, AloneTimes& alone) {
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

}  // namespace

LoaderTimes time_loader(const runtime::DataFeed& data, std::int64_t warm_up, double seconds) {
  const std::unique_ptr<runtime::Loader> loader = data.load();
  runtime::Batch batch;
  for (std::int64_t i = 0; i < warm_up; ++i) loader->next(batch);
  LoaderTimes loaded;
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

/// Images are taken a few at a time. So it reads the clock rarely, and the pixels stay in the cache.
AloneTimes time_alone(const runtime::DataFeed& data, const runtime::NetworkFace& face, bool training,
                      const runtime::Recipe& recipe, double seconds) {
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
  std::vector<std::uint8_t> bytes(out.size());
  const bool makes_bytes = data.pipeline().fields()[0].type.dtype == ir::DType::u8;
  AloneTimes alone;
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
      makes_bytes ? transforms.apply_to_bytes(images[i], bytes, 0, sample(i))
                  : transforms.apply(images[i], out, 0, sample(i));
      ++alone.images;
    }
    alone.transforms += seconds_since(change);
  }
  for (const runtime::ReadBuffer& buffer : buffers) alone.decode += buffer.decoding_seconds;
  const auto target = std::ranges::find(face.inputs, "target", &programs::Input::name);
  if (target != face.inputs.end()) time_batches(data, target->type.shape[1], std::min(seconds, 1.0), alone);
  return alone;
}

}  // namespace rewire::cli
