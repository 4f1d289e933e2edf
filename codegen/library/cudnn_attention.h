// Attention and its gradient by cuDNN's fused engines (cudnn.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/library/cudnn.h"
#include "codegen/library/device_attention.h"

namespace rewire::codegen {

/// Device pointers; what a forward or backward pass has not is not looked at.
struct AttentionMemory {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void *output = nullptr, *lse = nullptr;  // read by the gradient
  const void* d_output = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

class CudnnAttention {
 public:
  /// The engines that cuDNN's heuristic knows for the shape, in its order; those that want more workspace
  /// are left out. UnsupportedGraph if none is left. `arch`: the compute capability times ten.
  CudnnAttention(const Cudnn& library, int arch, const DeviceAttentionShape& shape,
                 std::int64_t workspace_limit);
  ~CudnnAttention();
  CudnnAttention(CudnnAttention&&) noexcept;
  CudnnAttention& operator=(CudnnAttention&&) noexcept;

  /// "cuDNN 9.19.0 engine 6, knobs 24=7 29=2": the version, the engine's number and its settings.
  const std::vector<std::string>& engines() const;
  /// Makes the plan of one of these, perhaps named by another process. False, and nothing changes, if there
  /// is no such engine here, or it refuses after all.
  bool choose(std::string_view engine);
  const std::string& chosen() const;
  /// Of the engine chosen. The memory must be aligned to 256 bytes.
  std::int64_t workspace_bytes() const;

  /// Puts it on a stream (a CUstream), which may be capturing.
  void run(const AttentionMemory& memory, void* workspace, void* stream) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rewire::codegen
