// Attention and its gradient by cuDNN's fused engines, which is opened when it is first asked for
// (codegen/cuda/shared_library.h; $REWIRE_CUDNN names another). A shape is a graph of operations, an engine
// with its settings one way to compute it, a plan that way as machine code. See cudnn_graph.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/library/device_attention.h"
#include "ir/error.h"

namespace rewire::codegen {

/// Why cuDNN cannot be used, in one line; nullopt: it can be opened.
std::optional<std::string> cudnn_missing();

/// cuDNN computes no such attention: it refuses the graph, or no engine of its takes it.
class UnsupportedAttention : public RuntimeFailure {
 public:
  using RuntimeFailure::RuntimeFailure;
};

/// cuDNN for a device. RuntimeFailure of every class here names the call that failed, what it was for and
/// cuDNN's words; UserError if the library is missing.
class Cudnn {
 public:
  /// For the context that is current on the calling thread.
  Cudnn();
  /// Without a device, for one with these properties, in cuDNN's own text: plans can be made, not run.
  explicit Cudnn(const std::string& device_properties);
  ~Cudnn();
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;
  /// "9.19.0"
  static std::string version();

 private:
  friend class CudnnAttention;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Whether `text` has the form of CudnnAttention::engines().
bool is_engine_text(std::string_view text);

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
  /// are left out. UnsupportedAttention if none is left. `arch`: the compute capability times ten.
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
