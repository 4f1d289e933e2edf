// The input of a step or an evaluation: named tensors, and the place of their samples in the data.
#pragma once

#include <cstdint>

#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

/// A batch of B samples. `tensors` has each field [B, …] and each view [count, B, …]; `weight` f32 [B],
/// which is 0 for a row that only fills up the batch, else 1; noise; and constants, the same in each batch.
struct Batch {
  TensorMap tensors;
  std::int64_t epoch = 0;
  std::int64_t index = 0;  // number in its epoch
  std::int64_t first = 0;  // place of its first sample in its epoch
};

/// The place of the next batch. `sample` is not batch times a size if the epoch had batches of other sizes.
struct DataPosition {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;   // number in the epoch
  std::int64_t sample = 0;  // place of the batch's first sample in the epoch
  bool operator==(const DataPosition&) const = default;
};

}  // namespace rewire::runtime
