// cuDNN, which is opened when it is first asked for (codegen/cuda/shared_library.h; $REWIRE_CUDNN names another).
// A shape is a graph of operations, an engine with its settings one way to compute it, a plan that way as machine
// code. What it computes: cudnn_attention.h, cudnn_convolution.h.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ir/error.h"

namespace rewire::codegen {

namespace cudnn {
class Engines;
}

/// Why cuDNN cannot be used, in one line; nullopt: it can be opened.
std::optional<std::string> cudnn_missing();

/// cuDNN computes no such thing: it refuses the graph, or no engine of its takes it.
class UnsupportedGraph : public RuntimeFailure {
 public:
  using RuntimeFailure::RuntimeFailure;
};

/// cuDNN for a device. RuntimeFailure of every class named above says the call that failed, what it was for and
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
  friend class cudnn::Engines;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Whether `text` names an engine as CudnnAttention::engines() and CudnnConvolution::engines() do.
bool is_engine_text(std::string_view text);

}  // namespace rewire::codegen
