// What a step or an evaluation is fed: tensors by name, and the place of their samples in the data.
#pragma once

#include <cstdint>

#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

/// Of each field [B, …], of views [count, B, …]; `weight` f32 [B], which is 1, or 0 of a sample that only fills up the batch;
/// what was drawn or read beside; and what is the same in each batch.
struct Batch {
  TensorMap tensors;
  std::int64_t epoch = 0;
  std::int64_t index = 0;  // in its epoch
  std::int64_t first = 0;  // of its samples, in its epoch
};

/// The place of the next batch. Where an epoch has had batches of other sizes, its samples are not batch times a size.
struct DataPosition {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;   // of the epoch
  std::int64_t sample = 0;  // of the epoch, the batch's first
  bool operator==(const DataPosition&) const = default;
};

}  // namespace rewire::runtime
