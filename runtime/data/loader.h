// Prepares batches for training and evaluation ahead of their use, by threads that share the rows of each, into a bounded queue. A
// batch depends on (seed, epoch, index, first sample) alone: not on the number of threads or on where the
// run began.
//
// Training: each epoch visits the samples in a random order of its own; samples left over at its end, too
// few for a batch, are dropped. Evaluation: samples come in order; the last batch is padded with rows of
// zeros that have weight 0. In both cases one pass over the data is batches_per_epoch() calls of next(),
// and the next pass follows without a break.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/data/batch.h"
#include "runtime/data/samples.h"

namespace rewire::runtime {

/// Called when all rows of a batch are filled.
using BatchFunction = std::function<void(Batch& batch)>;

/// Numbers drawn for each sample, uniform in [0, 1) or standard normal: a function of seed, epoch, sample
/// and name. Evaluation draws the same ones in each pass.
struct NoiseShape {
  std::string name;
  ir::Shape sample;  // without the batch axis
  bool is_normal = false;
};

/// Returns the order in which an epoch visits the samples: a permutation.
using OrderFunction = std::function<std::vector<std::uint32_t>(std::int64_t epoch)>;

/// Which batches a loader prepares: of every `of` in a row, the `count` from number `first` on. Training passes over
/// batches at the end of an epoch that are fewer than `of`.
struct LoaderShare {
  std::int64_t first = 0, count = 1, of = 1;
};

struct LoaderOptions {
  std::vector<RowField> fields;  // fields of one row
  bool training = true;
  std::int64_t batch = 64;
  LoaderShare share = {};
  std::uint64_t seed = 0;         // of the training order and the noise
  OrderFunction order = nullptr;  // null: epoch_order()
  std::int64_t repeats = 1;   // times in a row that a sample comes; an epoch has as many batches as with 1
  int threads = 1;            // threads that prepare batches
  std::int64_t prefetch = 4;  // batches prepared ahead, at most
  BatchFunction finish = nullptr;   // called last for each batch; fills `made`, and may change other tensors
  std::vector<RowField> made = {};  // fields of one row that `finish` fills
  std::vector<NoiseShape> noise = {};
  std::map<std::string, std::vector<float>> constants = {};  // f32 of rank 1, the same in each batch
};

class Loader {
 public:
  /// Throws UserError if an option is out of range, if there are fewer samples than a training batch needs,
  /// or if `start` is past the end of an epoch.
  Loader(SampleFunction sample, std::int64_t count, const LoaderOptions& options, DataPosition start = {});
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Waits for the next batch and swaps it into `batch`. The tensors that `batch` held before are reused
  /// for a later batch, so passing the same Batch each time allocates nothing. If preparing the batch threw
  /// an exception, throws it, also at every later call.
  void next(Batch& batch);

  /// Returns the position of the batch that the next call of next() returns.
  DataPosition position() const;
  /// Returns the batches of a pass, those of other loaders' shares included, and the batches of its own share.
  std::int64_t batches_per_epoch() const { return batches_per_epoch_; }
  std::int64_t own_per_epoch() const { return own_per_epoch_; }

 private:
  struct Slot {
    Batch batch;
    std::int64_t claimed = 0, done = 0;  // rows
    std::exception_ptr error;            // of the first row that has one
    std::int64_t failed = 0;             // the first row of the part with that error
    bool ready = false;
  };
  using Order = std::shared_ptr<const std::vector<std::uint32_t>>;

  Slot& slot_of(std::int64_t number) { return slots_[static_cast<std::size_t>(number) % slots_.size()]; }
  void work(const std::stop_token& stop);
  DataPosition place_of(std::int64_t number) const;
  void begin(std::int64_t number, Batch& batch) const;
  void fill(Batch& batch, std::int64_t begin, std::int64_t end, const std::stop_token& stop);
  void draw_noise(Batch& batch, std::int64_t row, const Visit& visit) const;
  Order order_of(std::int64_t epoch);

  const SampleFunction sample_;
  const std::int64_t count_;
  const LoaderOptions options_;
  const DataPosition start_;
  std::int64_t part_ = 1;  // the most rows that a thread claims at a time
  std::int64_t batches_per_epoch_ = 0;
  std::int64_t own_per_epoch_ = 0, own_of_first_ = 0;  // the latter: those left in the first epoch

  std::mutex order_mutex_;
  std::map<std::int64_t, Order> orders_;  // orders by epoch, for batches in flight

  // Batches are numbered from `start_`. Batch n is prepared in slot n % slots, as soon as n < consumed_ +
  // slots.
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Slot> slots_;
  std::int64_t claimed_ = 0;   // the first number of which not all rows are claimed
  std::int64_t consumed_ = 0;  // the number of the batch that next() returns next

  std::vector<std::jthread> threads_;  // last: joined before all above is destroyed
};

}  // namespace rewire::runtime
