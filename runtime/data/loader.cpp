// The pipeline behind Loader: threads claim batch numbers in order and prepare them in a ring of slots,
// next() takes them out in order.
#include "runtime/data/loader.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <system_error>
#include <utility>

#include "ir/error.h"
#include "ir/philox.h"

namespace rewire::runtime {
namespace {

/// Uniform in [0, count): 64 random bits times count, the high word. The bias is count / 2^64.
std::size_t below(const ir::PhiloxStream& stream, std::size_t draw, std::size_t count) {
  const std::uint64_t high = stream.bits(2 * draw), low = stream.bits(2 * draw + 1);
  return static_cast<std::size_t>(static_cast<unsigned __int128>(high << 32 | low) * count >> 64);
}

void reshape_tensor(HostTensor& tensor, const ir::TensorType& type) {
  if (tensor.type() != type || tensor.bytes().empty()) tensor = HostTensor(type);
}

ir::TensorType batch_type(std::int64_t batch, const ir::Shape& image_shape) {
  ir::TensorType type{ir::DType::f32, {batch}};
  type.shape.insert(type.shape.end(), image_shape.begin(), image_shape.end());
  return type;
}

void check(const LoaderOptions& options, std::int64_t count) {
  if (options.batch < 1) user_error("train.batch is {}; it must be 1 or more", options.batch);
  if (options.threads < 1) user_error("data.threads is {}; it must be 1 or more", options.threads);
  if (options.prefetch < 1) user_error("data.prefetch is {}; it must be 1 or more", options.prefetch);
  if (count < 1) user_error("the data set has no samples");
  if (options.training && count < options.batch) {
    user_error("train.batch is {}, but the training data has {} samples only", options.batch, count);
  }
}

}  // namespace

SampleFunction sample_function(const ImageSource& source, const TransformChain& transforms) {
  return [&source, &transforms](std::int64_t sample, std::int64_t epoch, std::span<float> image) {
    thread_local ReadBuffer buffer;
    const StoredImage stored = source.read(sample, buffer, [&](std::int64_t height, std::int64_t width) {
      return transforms.looks_at(height, width, epoch, sample);
    });
    transforms.apply(stored, image, epoch, sample);
    return source.label(sample);
  };
}

std::vector<std::uint32_t> epoch_order(std::int64_t count, std::uint64_t seed, std::int64_t epoch) {
  if (count > std::numeric_limits<std::uint32_t>::max()) user_error("{} samples are too many", count);
  const ir::PhiloxStream stream{seed, static_cast<std::uint32_t>(epoch), ir::stream_hash("data.order")};
  std::vector<std::uint32_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0U);
  for (std::size_t last = order.size(); last-- > 1;) {
    std::swap(order[last], order[below(stream, last, last + 1)]);
  }
  return order;
}

Loader::Loader(SampleFunction sample, std::int64_t count, const ir::Shape& image_shape,
               const LoaderOptions& options, DataPosition start)
    : sample_(std::move(sample)),
      count_(count),
      options_(options),
      image_type_(batch_type(options.batch, image_shape)) {
  check(options, count);
  batches_per_epoch_ = options.training ? count / options.batch : (count + options.batch - 1) / options.batch;
  constexpr std::int64_t kMaxEpoch = std::numeric_limits<std::uint32_t>::max();  // Philox has 32 bits for it
  if (start.epoch < 0 || start.epoch > kMaxEpoch || start.batch < 0 || start.batch > batches_per_epoch_) {
    user_error("cannot start at batch {} of epoch {}: an epoch has {} batches of {}", start.batch,
               start.epoch, batches_per_epoch_, options.batch);
  }
  claimed_ = consumed_ = start.epoch * batches_per_epoch_ + start.batch;
  slots_.resize(static_cast<std::size_t>(options.prefetch));
  try {
    for (int i = 0; i < options.threads; ++i)
      threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  } catch (const std::system_error& error) {
    user_error("cannot start thread {} of {} that load data: {}; lower data.threads", threads_.size() + 1,
               options.threads, error.code().message());
  }
}

Loader::~Loader() {
  for (std::jthread& thread : threads_) thread.request_stop();  // all at once, before the first is joined
}

DataPosition Loader::position() const {
  const std::lock_guard lock(mutex_);
  return {consumed_ / batches_per_epoch_, consumed_ % batches_per_epoch_};
}

void Loader::next(Batch& batch) {
  std::unique_lock lock(mutex_);
  Slot& slot = slot_of(consumed_);
  changed_.wait(lock, [&] { return slot.ready; });
  if (slot.error) std::rethrow_exception(slot.error);
  std::swap(batch, slot.batch);
  slot.ready = false;
  ++consumed_;
  changed_.notify_all();
}

void Loader::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const auto has_room = [this] { return claimed_ < consumed_ + std::ssize(slots_); };
  while (changed_.wait(lock, stop, has_room) && !stop.stop_requested()) {
    const std::int64_t number = claimed_++;
    Slot& slot = slot_of(number);
    lock.unlock();
    std::exception_ptr error;
    try {
      prepare(number, slot.batch, stop);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    slot.error = error;
    slot.ready = true;
    changed_.notify_all();
  }
}

void Loader::prepare(std::int64_t number, Batch& batch, const std::stop_token& stop) {
  batch.epoch = number / batches_per_epoch_;
  batch.index = number % batches_per_epoch_;
  const auto of_type = [&](const char* name, const ir::TensorType& type) -> HostTensor& {
    HostTensor& tensor = batch.tensors[name];
    reshape_tensor(tensor, type);
    return tensor;
  };
  HostTensor& image_tensor = of_type("image", image_type_);
  const std::span<std::int64_t> labels =
      of_type("label", {ir::DType::i64, {options_.batch}}).as<std::int64_t>();
  const std::span<float> weights = of_type("weight", {ir::DType::f32, {options_.batch}}).as<float>();
  const Order order = options_.training ? order_of(batch.epoch) : nullptr;
  const std::span<float> images = image_tensor.as<float>();
  const std::size_t image_size = images.size() / static_cast<std::size_t>(options_.batch);
  for (std::int64_t i = 0; i < options_.batch && !stop.stop_requested(); ++i) {
    const auto row = static_cast<std::size_t>(i);
    const std::span<float> image = images.subspan(row * image_size, image_size);
    const std::int64_t place = batch.index * options_.batch + i;
    const bool padding = place >= count_;
    if (padding) {
      std::ranges::fill(image, 0.0F);
      labels[row] = 0;
    } else {
      const std::int64_t sample = order ? (*order)[static_cast<std::size_t>(place)] : place;
      labels[row] = sample_(sample, batch.epoch, image);
    }
    weights[row] = padding ? 0.0F : 1.0F;
  }
  if (options_.classes == 0 || stop.stop_requested()) return;
  const std::span<float> targets =
      of_type("target", {ir::DType::f32, {options_.batch, options_.classes}}).as<float>();
  std::ranges::fill(targets, 0.0F);
  for (std::size_t row = 0; row < labels.size(); ++row)
    targets[row * static_cast<std::size_t>(options_.classes) + static_cast<std::size_t>(labels[row])] = 1;
  if (options_.change) options_.change(images, targets, batch.epoch, batch.index);
}

Loader::Order Loader::order_of(std::int64_t epoch) {
  const std::lock_guard lock(order_mutex_);
  if (const auto found = orders_.find(epoch); found != orders_.end()) return found->second;
  // The slots reach over so many epochs at most; the oldest goes when another begins.
  const std::size_t most = 2 + slots_.size() / static_cast<std::size_t>(batches_per_epoch_);
  if (orders_.size() >= most) orders_.erase(orders_.begin());
  Order order = std::make_shared<const std::vector<std::uint32_t>>(epoch_order(count_, options_.seed, epoch));
  orders_.emplace(epoch, order);
  return order;
}

}  // namespace rewire::runtime
