// cuDNN, which is opened at its first use (codegen/cuda/shared_library.h; $REWIRE_CUDNN names another file).
// A shape is a graph of operations, an engine with its settings is one way to compute it, and a plan is that
// way as machine code. cudnn_attention.h and cudnn_convolution.h use it.
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

/// Returns why cuDNN cannot be used, in one line; nullopt: it can be opened.
std::optional<std::string> cudnn_missing();

/// cuDNN cannot compute this: it refuses the graph, or none of its engines takes it.
class UnsupportedGraph : public RuntimeFailure {
 public:
  using RuntimeFailure::RuntimeFailure;
};

/// cuDNN for a device. The classes of the files above throw RuntimeFailure that names the failed call, its
/// purpose and cuDNN's words, and UserError if the library is missing.
class Cudnn {
 public:
  /// Opens cuDNN for the context that is current on the calling thread.
  Cudnn();
  /// Opens cuDNN without a device, for one with these properties in cuDNN's own text: plans can be made, not
  /// run.
  explicit Cudnn(const std::string& device_properties);
  ~Cudnn();
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;
  /// Returns "9.19.0".
  static std::string version();

 private:
  friend class cudnn::Engines;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Returns whether `text` names an engine as CudnnAttention::engines() and CudnnConvolution::engines() do.
bool is_engine_text(std::string_view text);

}  // namespace rewire::codegen
