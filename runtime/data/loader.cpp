// The pipeline behind Loader: threads claim batch numbers in order and prepare them in a ring of slots,
// next() takes them out in order.
#include "runtime/data/loader.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <system_error>
#include <utility>

#include "ir/error.h"
#include "ir/philox.h"

namespace rewire::runtime {
namespace {

void reshape_tensor(HostTensor& tensor, const ir::TensorType& type) {
  if (tensor.type() != type || tensor.bytes().empty()) tensor = HostTensor(type);
}

ir::TensorType batch_type(std::int64_t batch, const ir::Shape& image_shape) {
  ir::TensorType type{ir::DType::f32, {batch}};
  type.shape.insert(type.shape.end(), image_shape.begin(), image_shape.end());
  return type;
}

ir::TensorType view_type(const ViewShape& view, std::int64_t batch) {
  ir::TensorType type = batch_type(batch, view.image);
  type.shape.insert(type.shape.begin(), view.count);
  return type;
}

/// Samples of one kind, one behind the other.
struct Rows {
  std::span<float> all;
  std::int64_t count;

  std::span<float> at(std::int64_t row) const {
    const std::size_t size = all.size() / static_cast<std::size_t>(count);
    return all.subspan(static_cast<std::size_t>(row) * size, size);
  }
};

void check(const LoaderOptions& options, std::int64_t count) {
  if (options.batch < 1) user_error("train.batch is {}; it must be 1 or more", options.batch);
  if (options.threads < 1) user_error("data.threads is {}; it must be 1 or more", options.threads);
  if (options.prefetch < 1) user_error("data.prefetch is {}; it must be 1 or more", options.prefetch);
  if (options.repeats < 1 || (options.repeats > 1 && !options.training))
    internal_error("{} repeats of each image", options.repeats);
  if (count < 1) user_error("the data set has no samples");
  if (options.training && count < options.batch) {
    user_error("train.batch is {}, but the training data has {} samples only", options.batch, count);
  }
}

/// Training drops what is left over, evaluation pads it.
std::int64_t batches_in(const LoaderOptions& options, std::int64_t samples) {
  return (samples + (options.training ? 0 : options.batch - 1)) / options.batch;
}

}  // namespace

Loader::Loader(SampleFunction sample, std::int64_t count, const ir::Shape& image_shape,
               const LoaderOptions& options, DataPosition start)
    : sample_(std::move(sample)),
      count_(count),
      options_(options),
      image_type_(batch_type(options.batch, image_shape)),
      start_(start) {
  check(options, count);
  batches_per_epoch_ = batches_in(options, count);
  constexpr std::int64_t kMaxEpoch = std::numeric_limits<std::uint32_t>::max();  // Philox has 32 bits for it
  if (start.epoch < 0 || start.epoch > kMaxEpoch || start.batch < 0 || start.sample < 0 ||
      start.sample > count) {
    user_error("cannot start at sample {} of epoch {}: an epoch has {} samples", start.sample, start.epoch,
               count);
  }
  batches_of_first_ = batches_in(options, count - start.sample);
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
  return place_of(consumed_);
}

DataPosition Loader::place_of(std::int64_t number) const {
  if (number < batches_of_first_)
    return {start_.epoch, start_.batch + number, start_.sample + number * options_.batch};
  const std::int64_t later = number - batches_of_first_, index = later % batches_per_epoch_;
  return {start_.epoch + 1 + later / batches_per_epoch_, index, index * options_.batch};
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
  const DataPosition place = place_of(number);
  batch.epoch = place.epoch;
  batch.index = place.batch;
  batch.first = place.sample;
  const auto reshape = [&](const std::string& name, const ir::TensorType& type) {
    reshape_tensor(batch.tensors[name], type);
  };
  reshape("image", image_type_);
  reshape("label", {ir::DType::i64, {options_.batch}});
  reshape("weight", {ir::DType::f32, {options_.batch}});
  for (const ViewShape& view : options_.views) reshape(view.name, view_type(view, options_.batch));
  for (const NoiseShape& noise : options_.noise) {
    ir::TensorType type{ir::DType::f32, {options_.batch}};
    type.shape.insert(type.shape.end(), noise.sample.begin(), noise.sample.end());
    reshape(noise.name, type);
  }
  for (const auto& [name, values] : options_.constants) {
    reshape(name, {ir::DType::f32, {std::ssize(values)}});
    std::ranges::copy(values, batch.tensors.at(name).as<float>().begin());
  }
  if (options_.classes > 0) reshape("target", {ir::DType::f32, {options_.batch, options_.classes}});
  fill(batch, stop);
  if (options_.classes == 0 || stop.stop_requested()) return;
  const std::span<const std::int64_t> labels = batch.tensors.at("label").as<std::int64_t>();
  const std::span<float> targets = batch.tensors.at("target").as<float>();
  std::ranges::fill(targets, 0.0F);
  for (std::size_t row = 0; row < labels.size(); ++row)
    targets[row * static_cast<std::size_t>(options_.classes) + static_cast<std::size_t>(labels[row])] = 1;
  if (options_.change)
    options_.change(batch.tensors.at("image").as<float>(), targets, batch.epoch, batch.index);
}

void Loader::fill(Batch& batch, const std::stop_token& stop) {
  const std::span<std::int64_t> labels = batch.tensors.at("label").as<std::int64_t>();
  const std::span<float> weights = batch.tensors.at("weight").as<float>();
  std::vector<Rows> rows = {{batch.tensors.at("image").as<float>(), options_.batch}};
  for (const ViewShape& view : options_.views) {
    const std::span<float> all = batch.tensors.at(view.name).as<float>();
    const std::size_t size = all.size() / static_cast<std::size_t>(view.count);
    for (std::size_t i = 0; i < static_cast<std::size_t>(view.count); ++i)
      rows.push_back({all.subspan(i * size, size), options_.batch});
  }
  const Order order = options_.training ? order_of(batch.epoch) : nullptr;
  std::vector<std::span<float>> images(rows.size());
  for (std::int64_t i = 0; i < options_.batch && !stop.stop_requested(); ++i) {
    const auto row = static_cast<std::size_t>(i);
    std::ranges::transform(rows, images.begin(), [i](const Rows& each) { return each.at(i); });
    const std::int64_t place = batch.first + i;
    std::optional<std::int64_t> label;
    Visit visit{batch.epoch, place / options_.repeats, place % options_.repeats};
    if (place < count_) {
      if (order) visit.image = (*order)[static_cast<std::size_t>(visit.image)];
      label = sample_(visit, images);
    }
    draw_noise(batch, i, visit);
    if (!label) {
      for (const std::span<float> image : images) std::ranges::fill(image, 0.0F);
    }
    labels[row] = label.value_or(0);
    weights[row] = label ? 1.0F : 0.0F;
  }
}

void Loader::draw_noise(Batch& batch, std::int64_t row, const Visit& visit) const {
  const std::int64_t epoch = options_.training ? visit.epoch : 0;
  for (const NoiseShape& noise : options_.noise) {
    const ir::PhiloxStream stream{options_.seed, static_cast<std::uint32_t>(epoch),
                                  ir::stream_hash("data.noise." + noise.name)};
    const auto count = static_cast<std::uint64_t>(ir::element_count(noise.sample));
    const auto first = static_cast<std::uint64_t>(visit.image * options_.repeats + visit.repeat) * count;
    float* const to =
        batch.tensors.at(noise.name).as<float>().data() + static_cast<std::uint64_t>(row) * count;
    for (std::uint64_t k = 0; k < count; ++k)
      to[k] = static_cast<float>(noise.is_normal ? stream.normal(first + k) : stream.uniform(first + k));
  }
}

Loader::Order Loader::order_of(std::int64_t epoch) {
  const std::lock_guard lock(order_mutex_);
  if (const auto found = orders_.find(epoch); found != orders_.end()) return found->second;
  // The slots reach over so many epochs at most; the oldest goes when another begins.
  const std::size_t most = 2 + slots_.size() / static_cast<std::size_t>(batches_per_epoch_);
  if (orders_.size() >= most) orders_.erase(orders_.begin());
  Order order = std::make_shared<const std::vector<std::uint32_t>>(
      options_.order ? options_.order(epoch) : epoch_order(count_, options_.seed, epoch));
  orders_.emplace(epoch, order);
  return order;
}

}  // namespace rewire::runtime
