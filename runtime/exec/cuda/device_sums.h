// Sums of states over the GPUs of a group, by NCCL.
//
// NCCL's own all-reduce promises no order of additions. So NCCL only exchanges, and a kernel adds: with the neighbour
// halves of the numbers, with the rank two away quarters, and so on; then the sums travel back (docs/design/processes.md).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/device/cuda/device.h"
#include "runtime/device/cuda/nccl.h"
#include "runtime/exec/state_sums.h"
#include "runtime/group/group.h"

namespace rewire::runtime {

/// f32 numbers that follow each other in the device's memory.
struct DeviceNumbers {
  cuda::Address first = 0;
  std::int64_t count = 0;
};

/// Joins the ranks' devices. All ranks call it; the context must be entered.
std::unique_ptr<cuda::Communicator> make_communicator(Group& group);

/// Makes the sums of these numbers, with work on this stream of this context alone. All must outlive them. A sum that
/// NCCL cannot end, or that takes longer than longest_exchange(), ends all ranks.
std::unique_ptr<StateSums> make_device_sums(std::vector<DeviceNumbers> numbers,
                                            const cuda::Communicator& communicator, Group& group,
                                            const cuda::Context& context, const cuda::Stream& stream);

}  // namespace rewire::runtime
