// The threads of Loader claim parts of the rows of batches, in order, and prepare the batches in a ring of slots.
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

/// Returns the type of `batch` rows.
ir::TensorType batch_type(const RowField& field, std::int64_t batch) {
  ir::TensorType type{field.type.dtype, {batch}};
  if (field.copies > 0) type.shape.insert(type.shape.begin(), field.copies);
  type.shape.insert(type.shape.end(), field.type.shape.begin(), field.type.shape.end());
  return type;
}

void check(const LoaderOptions& options, std::int64_t count) {
  if (options.batch < 1) user_error("train.batch is {}; it must be 1 or more", options.batch);
  if (options.threads < 1) user_error("data.threads is {}; it must be 1 or more", options.threads);
  if (options.prefetch < 1) user_error("data.prefetch is {}; it must be 1 or more", options.prefetch);
  if (options.repeats < 1 || (options.repeats > 1 && !options.training))
    internal_error("{} repeats of each sample", options.repeats);
  if (count < 1) user_error("the data set has no samples");
  if (options.training && count < options.batch) {
    user_error("train.batch is {}, but the training data has only {} samples", options.batch, count);
  }
}

/// Training drops the samples that do not fill a batch; evaluation pads them.
std::int64_t batches_in(const LoaderOptions& options, std::int64_t samples) {
  return (samples + (options.training ? 0 : options.batch - 1)) / options.batch;
}

/// Returns how many rows a thread claims at a time: all threads have work even if there is one slot, and a claim takes
/// little of the time that its rows take.
std::int64_t rows_of_part(const LoaderOptions& options) {
  constexpr std::int64_t kFewestRows = 8;
  if (options.threads == 1) return options.batch;
  const std::int64_t parts = std::int64_t{2} * options.threads;
  return std::min(std::max((options.batch + parts - 1) / parts, kFewestRows), options.batch);
}

/// Returns the batches of the share among so many in a row.
std::int64_t own_batches(const LoaderOptions& options, std::int64_t batches) {
  const LoaderShare& share = options.share;
  const std::int64_t whole = batches / share.of * share.count;
  if (options.training) return whole;
  return whole + std::clamp<std::int64_t>(batches % share.of - share.first, 0, share.count);
}

}  // namespace

Loader::Loader(SampleFunction sample, std::int64_t count, const LoaderOptions& options, DataPosition start)
    : sample_(std::move(sample)), count_(count), options_(options), start_(start) {
  check(options, count);
  part_ = rows_of_part(options);
  batches_per_epoch_ = batches_in(options, count);
  constexpr std::int64_t kMaxEpoch = std::numeric_limits<std::uint32_t>::max();  // Philox has 32 bits for it
  if (start.epoch < 0 || start.epoch > kMaxEpoch || start.batch < 0 || start.sample < 0 ||
      start.sample > count) {
    user_error("cannot start at sample {} of epoch {}: an epoch has {} samples", start.sample, start.epoch,
               count);
  }
  own_per_epoch_ = own_batches(options, batches_per_epoch_);
  own_of_first_ = own_batches(options, batches_in(options, count - start.sample));
  if (own_per_epoch_ == 0) return;
  slots_.resize(static_cast<std::size_t>(options.prefetch));
  try {
    for (int i = 0; i < options.threads; ++i)
      threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  } catch (const std::system_error& error) {
    user_error("cannot start thread {} of {} to load data: {}; lower data.threads", threads_.size() + 1,
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
  const LoaderShare& share = options_.share;
  const auto among_all = [&](std::int64_t own) {
    return own / share.count * share.of + share.first + own % share.count;
  };
  if (number < own_of_first_) {
    const std::int64_t index = among_all(number);
    return {start_.epoch, start_.batch + index, start_.sample + index * options_.batch};
  }
  const std::int64_t later = number - own_of_first_, index = among_all(later % own_per_epoch_);
  return {start_.epoch + 1 + later / own_per_epoch_, index, index * options_.batch};
}

void Loader::next(Batch& batch) {
  std::unique_lock lock(mutex_);
  Slot& slot = slot_of(consumed_);
  changed_.wait(lock, [&] { return slot.ready; });
  if (slot.error) std::rethrow_exception(slot.error);
  std::swap(batch, slot.batch);
  slot.ready = false;
  slot.claimed = slot.done = 0;
  ++consumed_;
  changed_.notify_all();
}

void Loader::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const auto has_room = [this] { return claimed_ < consumed_ + std::ssize(slots_); };
  while (changed_.wait(lock, stop, has_room) && !stop.stop_requested()) {
    Slot& slot = slot_of(claimed_);
    std::int64_t first = slot.claimed, last = std::min(first + part_, options_.batch);
    std::exception_ptr error;
    try {
      if (first == 0) begin(claimed_, slot.batch);
    } catch (...) {  // no memory: there are no rows to fill
      error = std::current_exception();
      last = options_.batch;
    }
    slot.claimed = last;
    if (last == options_.batch) ++claimed_;
    lock.unlock();
    try {
      if (!error) fill(slot.batch, first, last, stop);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error && (!slot.error || first < slot.failed)) {
      slot.error = error;
      slot.failed = first;
    }
    slot.done += last - first;
    if (slot.done < options_.batch || stop.stop_requested()) continue;
    lock.unlock();
    try {
      if (options_.finish && !slot.error) options_.finish(slot.batch);
    } catch (...) {
      slot.error = std::current_exception();
    }
    lock.lock();
    slot.ready = true;
    changed_.notify_all();
  }
}

/// Gives the batch its place and the shapes of its tensors.
void Loader::begin(std::int64_t number, Batch& batch) const {
  const DataPosition place = place_of(number);
  batch.epoch = place.epoch;
  batch.index = place.batch;
  batch.first = place.sample;
  const auto reshape = [&](const std::string& name, const ir::TensorType& type) {
    reshape_tensor(batch.tensors[name], type);
  };
  for (const auto* fields : {&options_.fields, &options_.made}) {
    for (const RowField& field : *fields) reshape(field.name, batch_type(field, options_.batch));
  }
  reshape("weight", {ir::DType::f32, {options_.batch}});
  for (const NoiseShape& noise : options_.noise) {
    ir::TensorType type{ir::DType::f32, {options_.batch}};
    type.shape.insert(type.shape.end(), noise.sample.begin(), noise.sample.end());
    reshape(noise.name, type);
  }
  for (const auto& [name, values] : options_.constants) {
    reshape(name, {ir::DType::f32, {std::ssize(values)}});
    std::ranges::copy(values, batch.tensors.at(name).as<float>().begin());
  }
}

void Loader::fill(Batch& batch, std::int64_t begin, std::int64_t end, const std::stop_token& stop) {
  const std::span<float> weights = batch.tensors.at("weight").as<float>();
  // The rows of each field; the rows of its copies follow one another.
  std::vector<std::span<std::byte>> columns;
  for (const RowField& field : options_.fields) {
    const std::span<std::byte> all = batch.tensors.at(field.name).bytes();
    const auto copies = static_cast<std::size_t>(std::max<std::int64_t>(field.copies, 1));
    for (std::size_t i = 0; i < copies; ++i)
      columns.push_back(all.subspan(i * (all.size() / copies), all.size() / copies));
  }
  const Order order = options_.training ? order_of(batch.epoch) : nullptr;
  std::vector<std::span<std::byte>> row(columns.size());
  for (std::int64_t i = begin; i < end && !stop.stop_requested(); ++i) {
    std::ranges::transform(columns, row.begin(), [&](std::span<std::byte> column) {
      const std::size_t size = column.size() / static_cast<std::size_t>(options_.batch);
      return column.subspan(static_cast<std::size_t>(i) * size, size);
    });
    const std::int64_t place = batch.first + i;
    bool is_there = false;
    Visit visit{batch.epoch, place / options_.repeats, place % options_.repeats};
    if (place < count_) {
      if (order) visit.sample = (*order)[static_cast<std::size_t>(visit.sample)];
      is_there = sample_(visit, row);
    }
    draw_noise(batch, i, visit);
    if (!is_there) {
      for (const std::span<std::byte> field : row) std::ranges::fill(field, std::byte{0});
    }
    weights[static_cast<std::size_t>(i)] = is_there ? 1.0F : 0.0F;
  }
}

void Loader::draw_noise(Batch& batch, std::int64_t row, const Visit& visit) const {
  const std::int64_t epoch = options_.training ? visit.epoch : 0;
  for (const NoiseShape& noise : options_.noise) {
    const ir::PhiloxStream stream{options_.seed, static_cast<std::uint32_t>(epoch),
                                  ir::stream_hash("data.noise." + noise.name)};
    const auto count = static_cast<std::uint64_t>(ir::element_count(noise.sample));
    const auto first = static_cast<std::uint64_t>(visit.sample * options_.repeats + visit.repeat) * count;
    float* const to =
        batch.tensors.at(noise.name).as<float>().data() + static_cast<std::uint64_t>(row) * count;
    for (std::uint64_t k = 0; k < count; ++k)
      to[k] = static_cast<float>(noise.is_normal ? stream.normal(first + k) : stream.uniform(first + k));
  }
}

Loader::Order Loader::order_of(std::int64_t epoch) {
  const std::lock_guard lock(order_mutex_);
  if (const auto found = orders_.find(epoch); found != orders_.end()) return found->second;
  // The slots span at most this many epochs. When another epoch begins, the oldest order is dropped.
  const std::size_t most = 2 + slots_.size() / static_cast<std::size_t>(own_per_epoch_);
  if (orders_.size() >= most) orders_.erase(orders_.begin());
  Order order = std::make_shared<const std::vector<std::uint32_t>>(
      options_.order ? options_.order(epoch) : epoch_order(count_, options_.seed, epoch));
  orders_.emplace(epoch, order);
  return order;
}

}  // namespace rewire::runtime
