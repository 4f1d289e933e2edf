// The pipeline: same batches for any number of threads and any start, nothing lost at shutdown or failure.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <set>
#include <stdexcept>

#include "ir/error.h"
#include "ir/philox.h"
#include "runtime/data/catalog/sources.h"
#include "tests/runtime_data/image_batches.h"
#include "tests/runtime_data/same_size.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

using test::message_of;

struct Example {
  std::unique_ptr<ImageSource> source;
  ImagePipeline training, evaluation;
  SampleFunction samples = samples_of(training);

  Example(std::unique_ptr<ImageSource> from, const PipelineContext& context, const PipelineContext& evaluated)
      : source(std::move(from)), training(*source, context), evaluation(*source, evaluated) {}
  Example(const Example&) = delete;
};

Example example(std::int64_t count = 100) {
  const ir::Shape image = {2, 6, 5};
  const ir::Attributes values = {{"mean", ir::Doubles{0.4}},
                                 {"std", ir::Doubles{0.3}},
                                 {"crop_padding", std::int64_t{2}},
                                 {"horizontal_flip", true}};
  ir::Selection synthetic{"synthetic"};
  return {make_image_source(synthetic.set("count", count), {Split::train, image}),
          images_under(values, image), images_under(values, image, false)};
}

LoaderOptions training(std::int64_t batch, int threads, std::int64_t prefetch = 3) {
  LoaderOptions options;
  options.batch = batch;
  options.seed = 7;
  options.threads = threads;
  options.prefetch = prefetch;
  return options;
}

std::vector<std::byte> bytes_of(const Batch& batch) {
  std::vector<std::byte> bytes;
  for (const auto& [name, tensor] : batch.tensors)
    bytes.insert(bytes.end(), tensor.bytes().begin(), tensor.bytes().end());
  return bytes;
}

/// The bytes of `count` batches from `start` on.
std::vector<std::vector<std::byte>> batches(const Example& data, const LoaderOptions& options, int count,
                                            DataPosition start = {}) {
  Loader loader(data.samples, data.source->count(), with_images(options, {2, 6, 5}), start);
  std::vector<std::vector<std::byte>> result;
  Batch batch;
  for (int i = 0; i < count; ++i) {
    loader.next(batch);
    result.push_back(bytes_of(batch));
  }
  return result;
}

TEST_CASE("The batches are the same bytes for 1, 2 and 4 threads and any prefetch") {
  const Example data = example();
  const auto reference = batches(data, training(8, 1, 1), 40);  // three epochs of 12 batches, and a bit
  for (const int threads : {1, 2, 4}) {
    for (const std::int64_t prefetch : {1, 2, 7, 100}) {
      CAPTURE(threads, prefetch);
      CHECK(batches(data, training(8, threads, prefetch), 40) == reference);
    }
  }
}

TEST_CASE("Threads share the rows of a batch, which has the same bytes") {
  const Example data = example();
  const auto reference = batches(data, training(50, 1, 1), 7);
  for (const int threads : {2, 3, 4, 16}) {  // parts of 13, 9 and 8 rows
    for (const std::int64_t prefetch : {1, 3}) {
      CAPTURE(threads, prefetch);
      CHECK(batches(data, training(50, threads, prefetch), 7) == reference);
    }
  }
  // With one batch ahead, several threads are at work in it at once.
  std::atomic<int> inside{0}, most{0};
  const SampleFunction slow = labelled([&](const Visit& visit, std::span<float>) {
    const int now = ++inside;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    --inside;
    return visit.sample;
  });
  Loader loader(slow, 64, with_images(training(64, 4, 1), {1}));
  Batch batch;
  loader.next(batch);
  CHECK(most == 4);
}

TEST_CASE("Of the rows of a batch that fail on several threads, the first is reported") {
  const SampleFunction fails_from_20 = labelled([](const Visit& visit, std::span<float>) {
    if (visit.sample == 20) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (visit.sample >= 20) throw UserError("sample " + std::to_string(visit.sample) + " is broken");
    return visit.sample;
  });
  LoaderOptions options = training(64, 4, 1);
  options.training = false;
  Loader loader(fails_from_20, 64, with_images(options, {1}));
  Batch batch;
  CHECK(message_of<UserError>([&] { loader.next(batch); }) == "sample 20 is broken");
}

TEST_CASE("Noise is uniform, a function of the epoch and the image, and the same in each evaluation") {
  const Example data = example(41);
  LoaderOptions options = training(8, 1);
  options.noise = {{"noise", {3, 5}}, {"other", {7}}};
  const auto reference = batches(data, options, 12);  // two epochs of 5 batches, and a bit
  for (const int threads : {2, 3}) {
    LoaderOptions other = options;
    other.threads = threads;
    CHECK(batches(data, other, 12) == reference);
    CHECK(batches(data, other, 5, {1, 2, 16}) == std::vector(reference.begin() + 7, reference.end()));
  }
  // By image, whatever the order that an epoch visits them in.
  LoaderOptions reordered = options;
  reordered.order = [](std::int64_t) {
    std::vector<std::uint32_t> order(41);
    for (std::uint32_t i = 0; i < 41; ++i) order[i] = 40 - i;
    return order;
  };
  reordered.batch = options.batch = 41;
  const auto one_batch = [&](const LoaderOptions& how, int skip) {
    Loader loader(data.samples, 41, with_images(how, {2, 6, 5}));
    Batch batch;
    for (int i = 0; i <= skip; ++i) loader.next(batch);
    std::set<std::vector<float>> rows;
    const auto numbers = batch.tensors.at("noise").as<float>();
    for (std::size_t row = 0; row < 41; ++row)
      rows.insert(std::vector<float>(numbers.begin() + static_cast<std::ptrdiff_t>(row * 15),
                                     numbers.begin() + static_cast<std::ptrdiff_t>(row * 15 + 15)));
    return rows;
  };
  CHECK(one_batch(options, 0) == one_batch(reordered, 0));
  CHECK(one_batch(options, 0) != one_batch(options, 1));
  CHECK(one_batch(options, 0).size() == 41);
  LoaderOptions evaluation = options;
  evaluation.training = false;
  CHECK(one_batch(evaluation, 0) == one_batch(evaluation, 1));
}

TEST_CASE("Normal noise is Philox's normal numbers of the image, beside uniform ones") {
  const Example data = example(41);
  LoaderOptions options = training(8, 2);
  options.noise = {{"noise", {3, 5}, true}, {"other", {}}};
  Loader loader(data.samples, 41, with_images(options, {2, 6, 5}));
  const std::vector<std::uint32_t> order = epoch_order(41, 7, 0);
  Batch batch;
  loader.next(batch);
  CHECK(batch.tensors.at("other").type().shape == ir::Shape{8});
  for (std::size_t row = 0; row < 8; ++row) {
    const auto number = [&](const char* name, std::uint64_t index) {
      return ir::PhiloxStream{7, 0, ir::stream_hash(std::string("data.noise.") + name)}.normal(index);
    };
    for (std::uint64_t k = 0; k < 15; ++k) {
      CHECK(batch.tensors.at("noise").as<float>()[row * 15 + k] ==
            static_cast<float>(number("noise", order[row] * 15 + k)));
    }
    const float uniform = batch.tensors.at("other").as<float>()[row];
    CHECK(uniform >= 0);
    CHECK(uniform < 1);
  }
}

TEST_CASE("A run resumed in mid-epoch sees the batches that the first would have seen") {
  const Example data = example();
  const LoaderOptions options = training(8, 2);
  const auto reference = batches(data, options, 40);
  Loader first(data.samples, data.source->count(), with_images(options, {2, 6, 5}));
  CHECK(first.batches_per_epoch() == 12);
  Batch batch;
  for (int taken = 0; taken < 30; ++taken) {
    const DataPosition position = first.position();
    CHECK(position == DataPosition{taken / 12, taken % 12, taken % 12 * 8});
    const auto resumed = batches(data, options, 3, position);
    first.next(batch);
    CHECK(batch.epoch == position.epoch);
    CHECK(batch.index == position.batch);
    for (int i = 0; i < 3; ++i) {
      CAPTURE(taken, i);
      CHECK(resumed[static_cast<std::size_t>(i)] == reference[static_cast<std::size_t>(taken + i)]);
    }
  }
  // The end of an epoch is the beginning of the next.
  CHECK(batches(data, options, 1, {0, 12, 96}) == batches(data, options, 1, {1, 0, 0}));
}

TEST_CASE(
    "An epoch whose batches become larger and smaller visits no sample twice, and those after it each") {
  const SampleFunction index_as_label = labelled([](const Visit& visit, std::span<float> image) {
    std::ranges::fill(image, 0.0F);
    return visit.sample;
  });
  const std::int64_t count = 103;
  DataPosition at;
  const auto take = [&](std::int64_t size, int batches) {
    LoaderOptions options = training(size, 1, 1);
    std::vector<std::int64_t> seen;
    Loader loader(index_as_label, count, with_images(options, {1}), at);
    Batch batch;
    for (int i = 0; i < batches; ++i) {
      loader.next(batch);
      const auto labels = batch.tensors.at("label").as<std::int64_t>();
      seen.insert(seen.end(), labels.begin(), labels.end());
    }
    at = {batch.epoch, batch.index + 1, batch.first + size};
    return seen;
  };
  std::vector<std::int64_t> first;
  for (const auto& [size, batches] : {std::pair{8, 3}, std::pair{32, 1}, std::pair{5, 2}, std::pair{16, 2}}) {
    const std::vector<std::int64_t> seen = take(size, batches);
    first.insert(first.end(), seen.begin(), seen.end());
  }
  CHECK(at == DataPosition{0, 8, 98});
  const std::vector<std::int64_t> rest = take(5, 1);  // of the five that are left
  CHECK(at == DataPosition{0, 9, 103});
  first.insert(first.end(), rest.begin(), rest.end());
  std::ranges::sort(first);
  CHECK(std::ranges::adjacent_find(first) == first.end());
  CHECK(std::ssize(first) == count);
  std::vector<std::int64_t> second = take(32, 3);
  std::ranges::sort(second);
  CHECK(std::ranges::adjacent_find(second) == second.end());
  CHECK(at == DataPosition{1, 3, 96});
}

TEST_CASE("Epochs differ in order and in augmentation, seeds too") {
  const Example data = example();
  LoaderOptions options = training(100, 1);
  const auto epochs = batches(data, options, 2);
  CHECK(epochs[0] != epochs[1]);
  options.seed = 8;
  CHECK(batches(data, options, 1)[0] != epochs[0]);
}

TEST_CASE("A training epoch visits each sample at most once and drops what is left over") {
  const SampleFunction named_by_label =
      labelled([](const Visit& visit, std::span<float>) { return visit.sample; });
  Loader loader(named_by_label, 103, with_images(training(10, 2), {1}));
  CHECK(loader.batches_per_epoch() == 10);
  Batch batch;
  std::set<std::int64_t> labels;
  for (int i = 0; i < 10; ++i) {
    loader.next(batch);
    CHECK(batch.epoch == 0);
    for (const std::int64_t label : batch.tensors.at("label").as<std::int64_t>()) labels.insert(label);
    for (const float weight : batch.tensors.at("weight").as<float>()) CHECK(weight == 1);
  }
  CHECK(labels.size() == 100);  // so no sample came twice
  CHECK(*labels.begin() >= 0);
  CHECK(*labels.rbegin() < 103);
  loader.next(batch);
  CHECK(batch.epoch == 1);
  CHECK(batch.index == 0);
}

/// Asks for the probabilities of ten classes too.
PipelineContext with_targets(PipelineContext context) {
  context.asked.push_back({"target", ir::DType::f32, {10}, FieldKind::number, 10});
  return context;
}

TEST_CASE("Mixed batches are the same for any number of threads, and where a run is resumed in mid-epoch") {
  const Example data = example();
  const ImagePipeline mixed(*data.source,
                            with_targets(images_under({{"mixup", 0.8}, {"cutmix", 1.0}}, {2, 6, 5})));
  const auto mixing = [&](int threads, std::int64_t prefetch, int count, DataPosition start = {}) {
    Loader loader(samples_of(mixed), data.source->count(), with_rows(training(8, threads, prefetch), mixed),
                  start);
    std::vector<std::vector<std::byte>> result;
    Batch batch;
    for (int i = 0; i < count; ++i) {
      loader.next(batch);
      result.push_back(bytes_of(batch));
    }
    return result;
  };
  const auto reference = mixing(1, 1, 30);
  CHECK(reference[0].size() == batches(data, training(8, 1), 1)[0].size() + 8 * 10 * sizeof(float));
  for (const int threads : {2, 4}) CHECK(mixing(threads, 7, 30) == reference);
  for (const int taken : {1, 7, 12, 17}) {
    const auto resumed = mixing(2, 3, 3, {taken / 12, taken % 12, taken % 12 * 8});
    for (int i = 0; i < 3; ++i)
      CHECK(resumed[static_cast<std::size_t>(i)] == reference[static_cast<std::size_t>(taken + i)]);
  }
}

TEST_CASE("Targets are the labels' rows where nothing mixes them; padding has those of label 0") {
  const Example data = example(13);
  LoaderOptions options = training(5, 2);
  options.training = false;
  const ImagePipeline evaluation(*data.source, with_targets(images_under({}, {2, 6, 5}, false)));
  Loader loader(samples_of(evaluation), 13, with_rows(options, evaluation));
  Batch batch;
  for (std::size_t i = 0; i < 15; ++i) {
    if (i % 5 == 0) loader.next(batch);
    const std::span<const float> target = batch.tensors.at("target").as<float>().subspan(i % 5 * 10, 10);
    for (std::size_t k = 0; k < 10; ++k) CHECK(target[k] == (k == (i < 13 ? i % 10 : 0) ? 1 : 0));
  }
}

TEST_CASE("Evaluation keeps the order, pads the last batch with weight 0, and comes again") {
  const Example data = example(13);
  LoaderOptions options = training(5, 2);
  options.training = false;
  Loader loader(samples_of(data.evaluation), 13, with_rows(options, data.evaluation));
  CHECK(loader.batches_per_epoch() == 3);
  Batch batch;
  std::vector<float> expected(60);
  ReadBuffer buffer;
  for (int pass = 0; pass < 2; ++pass) {
    for (std::int64_t i = 0; i < 15; ++i) {
      if (i % 5 == 0) loader.next(batch);
      CAPTURE(pass, i);
      const auto row = static_cast<std::size_t>(i % 5);
      const std::span<const float> image = batch.tensors.at("image").as<float>().subspan(row * 60, 60);
      if (i < 13) {
        data.evaluation.transforms().apply(data.source->decode(i, buffer, nullptr), expected, 0, i);
        CHECK(std::ranges::equal(image, expected));
        CHECK(batch.tensors.at("label").as<std::int64_t>()[row] == i % 10);
        CHECK(batch.tensors.at("weight").as<float>()[row] == 1);
      } else {
        CHECK(std::ranges::all_of(image, [](float value) { return value == 0; }));
        CHECK(batch.tensors.at("label").as<std::int64_t>()[row] == 0);
        CHECK(batch.tensors.at("weight").as<float>()[row] == 0);
      }
    }
  }
}

TEST_CASE("Evaluation pads a set smaller than one batch") {
  LoaderOptions options = training(8, 1);
  options.training = false;
  const SampleFunction ones = labelled([](const Visit&, std::span<float> image) {
    std::ranges::fill(image, 1.0F);
    return std::int64_t{3};
  });
  Loader loader(ones, 1, with_images(options, {1}));
  Batch batch;
  loader.next(batch);
  CHECK(loader.batches_per_epoch() == 1);
  CHECK(std::ranges::count(batch.tensors.at("weight").as<float>(), 1.0F) == 1);
}

TEST_CASE("A batch's memory is filled again, also where the consumer kept some of it") {
  const Example data = example();
  const LoaderOptions options = training(8, 2);
  const auto reference = batches(data, options, 6);
  Loader loader(data.samples, data.source->count(), with_images(options, {2, 6, 5}));
  Batch batch;
  std::vector<HostTensor> kept;
  for (std::size_t i = 0; i < 6; ++i) {
    loader.next(batch);
    CHECK(bytes_of(batch) == reference[i]);
    if (i % 2 == 0) kept.push_back(std::move(batch.tensors.at("image")));
  }
  CHECK(kept[0].type() == ir::TensorType{ir::DType::f32, {8, 2, 6, 5}});
}

TEST_CASE("An epoch's order is a permutation, and a function of seed and epoch") {
  for (const std::int64_t count : {1, 2, 3, 1000}) {
    std::vector<std::uint32_t> order = epoch_order(count, 5, 2);
    CHECK(order == epoch_order(count, 5, 2));
    std::ranges::sort(order);
    for (std::size_t i = 0; i < order.size(); ++i) REQUIRE(order[i] == i);
  }
  CHECK(epoch_order(1000, 5, 2) != epoch_order(1000, 5, 3));
  CHECK(epoch_order(1000, 5, 2) != epoch_order(1000, 6, 2));
  CHECK_THROWS_AS(epoch_order(std::int64_t{1} << 33, 0, 0), UserError);
}

TEST_CASE("All permutations of four are as likely") {
  constexpr int kEpochs = 24'000;
  std::map<std::vector<std::uint32_t>, int> counts;
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) ++counts[epoch_order(4, 3, epoch)];
  REQUIRE(counts.size() == 24);
  double chi_squared = 0;
  for (const auto& [order, count] : counts)
    chi_squared += std::pow(count - kEpochs / 24.0, 2) / (kEpochs / 24.0);
  CHECK(chi_squared < 23 + 5 * std::sqrt(2 * 23.0));  // 23 degrees of freedom, five deviations
}

TEST_CASE("What a thread throws reaches the consumer at its batch, and stays") {
  const SampleFunction fails_at_25 = labelled([](const Visit& visit, std::span<float> image) {
    if (visit.sample == 25) throw UserError("sample 25 is broken");
    std::ranges::fill(image, 0.0F);
    return visit.sample;
  });
  for (const int threads : {1, 3}) {
    LoaderOptions options = training(10, threads);
    options.training = false;
    Loader loader(fails_at_25, 100, with_images(options, {4}));
    Batch batch;
    loader.next(batch);
    loader.next(batch);
    CHECK(batch.index == 1);
    for (int i = 0; i < 2; ++i) {
      CHECK(message_of<UserError>([&] { loader.next(batch); }) == "sample 25 is broken");
    }
    CHECK(loader.position() == DataPosition{0, 2, 20});
  }
}

TEST_CASE("No more than the prefetch is prepared ahead") {
  std::atomic<std::int64_t> prepared{0};
  const SampleFunction count_samples = labelled([&](const Visit& visit, std::span<float>) {
    ++prepared;
    return visit.sample;
  });
  LoaderOptions options = training(10, 4, 3);
  options.training = false;
  Loader loader(count_samples, 1000, with_images(options, {1}));
  // Any number of threads, given all the time they want, stops at the bound.
  while (prepared < 30) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(prepared == 30);
  Batch batch;
  loader.next(batch);
  while (prepared < 40) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(prepared == 40);
}

TEST_CASE("A loader is gone at once, whatever its threads are doing") {
  const Example data = example();
  for (int taken = 0; taken < 20; ++taken) {
    const LoaderOptions options = training(8, 4, 1 + taken % 5);
    Loader loader(data.samples, data.source->count(), with_images(options, {2, 6, 5}));
    Batch batch;
    for (int i = 0; i < taken; ++i) loader.next(batch);
  }
  // A thread in the middle of a large batch stops at the next sample.
  std::atomic<int> begun{0};
  {
    const SampleFunction slow = labelled([&](const Visit& visit, std::span<float>) {
      ++begun;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return visit.sample;
    });
    const Loader loader(slow, 100'000, with_images(training(100'000, 1), {1}));
    while (begun == 0) std::this_thread::yield();
  }
  CHECK(begun < 10'000);
}

TEST_CASE("Options out of range are refused by name, and so is a start outside the data") {
  const SampleFunction none = labelled([](const Visit&, std::span<float>) { return std::int64_t{0}; });
  const auto message = [&](LoaderOptions options, std::int64_t count = 10, DataPosition start = {}) {
    return message_of<UserError>([&] { Loader(none, count, with_images(options, {1}), start); });
  };
  CHECK(message(training(0, 1)) == "train.batch is 0; it must be 1 or more");
  CHECK(message(training(1, 0)) == "data.threads is 0; it must be 1 or more");
  CHECK(message(training(1, 1, 0)) == "data.prefetch is 0; it must be 1 or more");
  CHECK(message(training(11, 1)) == "train.batch is 11, but the training data has only 10 samples");
  LoaderOptions evaluation = training(1, 1);
  evaluation.training = false;
  CHECK(message(evaluation, 0) == "the data set has no samples");
  CHECK(message(training(5, 1), 10, {0, 3, 11}) ==
        "cannot start at sample 11 of epoch 0: an epoch has 10 samples");
  CHECK(message(training(5, 1), 10, {-1, 0, 0}) ==
        "cannot start at sample 0 of epoch -1: an epoch has 10 samples");
}

}  // namespace
}  // namespace rewire::runtime
