#include "runtime/train/accuracy.h"

#include <chrono>
#include <deque>

namespace rewire::runtime {

constexpr std::size_t kRunsAhead = 2;  // a device computes while the host reads batches

std::optional<Accuracy> measure_accuracy(Engine& engine, const std::string& program, Loader& loader,
                                         const std::function<bool(std::int64_t done)>& go_on) {
  const auto start = std::chrono::steady_clock::now();
  Accuracy sums;
  double images = 0;
  Batch batch;
  std::deque<Engine::Ticket> pending;
  const auto read = [&] {
    const TensorMap results = engine.results(pending.front());
    pending.pop_front();
    const auto sum = [&](const char* name) { return static_cast<double>(results.at(name).as<float>()[0]); };
    sums.loss += sum("loss_sum");
    sums.top1 += sum("correct1");
    sums.top5 += sum("correct5");
    images += sum("count");
  };
  for (std::int64_t done = 0; done < loader.batches_per_epoch(); ++done) {
    if (!go_on(done)) return std::nullopt;
    loader.next(batch);
    TensorMap inputs;
    inputs.emplace("image", std::move(batch.image));
    inputs.emplace("label", std::move(batch.label));
    inputs.emplace("weight", std::move(batch.weight));
    pending.push_back(engine.submit(program, inputs));
    if (pending.size() > kRunsAhead) read();
    batch.image = std::move(inputs.at("image"));
    batch.label = std::move(inputs.at("label"));
    batch.weight = std::move(inputs.at("weight"));
  }
  while (!pending.empty()) read();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return Accuracy{sums.loss / images, sums.top1 / images, sums.top5 / images,
                  static_cast<std::int64_t>(images), took.count()};
}

}  // namespace rewire::runtime
