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

/// Device pointers. Those that a forward or backward pass does not have are ignored.
struct AttentionMemory {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void *output = nullptr, *lse = nullptr;  // read by the gradient
  const void* d_output = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

class CudnnAttention {
 public:
  /// Takes the engines that cuDNN's heuristic knows for the shape, in its order, without those that need
  /// more workspace. Throws UnsupportedGraph if none is left. `arch`: the compute capability times ten.
  CudnnAttention(const Cudnn& library, int arch, const DeviceAttentionShape& shape,
                 std::int64_t workspace_limit);
  ~CudnnAttention();
  CudnnAttention(CudnnAttention&&) noexcept;
  CudnnAttention& operator=(CudnnAttention&&) noexcept;

  /// Returns "cuDNN 9.19.0 engine 6, knobs 24=7 29=2": the version, the engine's number and its settings.
  const std::vector<std::string>& engines() const;
  /// Makes the plan of one of these, perhaps named by another process. Returns false, and changes nothing,
  /// if there is no such engine here, or it refuses after all.
  bool choose(std::string_view engine);
  const std::string& chosen() const;
  /// Returns the workspace of the chosen engine. The memory must be aligned to 256 bytes.
  std::int64_t workspace_bytes() const;

  /// Puts the pass on a stream (a CUstream), which may be capturing.
  void run(const AttentionMemory& memory, void* workspace, void* stream) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rewire::codegen
