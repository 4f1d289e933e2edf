// The memory, slot by slot, through which runs of one program take inputs from the host and give it results.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ir/module.h"
#include "runtime/device/cuda/device.h"
#include "runtime/device/thread_pool.h"
#include "runtime/exec/cuda/program.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

struct CudaStreams {
  cuda::Stream compute, copy;
};

/// Inputs in transit. Two slots take turns, so that one run's inputs are copied while the run before it
/// computes.
class InputRing {
 public:
  InputRing(const CudaProgram& program, bool poison);

  /// Starts to copy the inputs to the program's arguments; work that the compute stream is given next finds
  /// them there. Waits for the slot, used two runs ago.
  void send(const std::vector<const HostTensor*>& inputs, const CudaStreams& streams);
  /// True if inputs were sent before.
  bool sent() const { return sent_; }

 private:
  void copy(std::span<const std::byte> from, std::byte* to);

  struct Slot {
    cuda::PinnedMemory host;
    cuda::DeviceMemory staging;
    cuda::Event copied;  // the host's half is free
    cuda::Event taken;   // the device's half is free
  };
  const CudaProgram& program_;
  std::string what_;
  bool poison_;
  std::vector<Slot> slots_;  // none for a program without inputs
  std::size_t next_ = 0;
  bool sent_ = false;
  std::optional<ThreadPool> copiers_;  // started by the first large input
};

/// Results on the host: as many slots as runs whose results were not read.
class ResultSlots {
 public:
  explicit ResultSlots(const CudaProgram& program);

  /// Copies the results when the compute stream gets there; returns the slot's number.
  std::size_t receive(const CudaStreams& streams);
  bool arrived(std::size_t slot) const { return slots_[slot]->copied.happened(); }
  /// Waits for the results, and frees the slot.
  TensorMap take(std::size_t slot);

 private:
  struct Slot {
    cuda::PinnedMemory host;
    cuda::Event copied;
    bool used = false;
  };
  const CudaProgram& program_;
  std::string what_;
  std::vector<std::unique_ptr<Slot>> slots_;
};

}  // namespace rewire::runtime
