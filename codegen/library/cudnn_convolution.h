// Convolutions and their gradients by cuDNN (cudnn.h), each a graph of one operation. Results have the same
// bits each time, and the precision that the shape asks for. Engines that add in any order are left out, and
// so are engines that round f32 operands to TF32, unless the shape allows that.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/library/cudnn.h"
#include "codegen/library/device_convolution.h"

namespace rewire::codegen {

class CudnnConvolution {
 public:
  /// Makes the plan of `engine`, perhaps named by another process, or else of the first engine that makes
  /// one, in the order of cuDNN's heuristic. Engines that need more workspace are left out. Throws
  /// UnsupportedGraph if there is none.
  CudnnConvolution(const Cudnn& library, const DeviceConvolution& convolution, std::int64_t workspace_limit,
                   std::string_view engine = {});
  ~CudnnConvolution();
  CudnnConvolution(CudnnConvolution&&) noexcept;
  CudnnConvolution& operator=(CudnnConvolution&&) noexcept;

  /// Returns the engines that cuDNN knows for the shape, in its order, as cudnn::Engines::names() does.
  const std::vector<std::string>& engines() const;
  /// Makes the plan of one of these. Returns false, and changes nothing, if there is no such engine here, or
  /// it refuses after all.
  bool choose(std::string_view engine);
  const std::string& chosen() const;
  /// Returns the workspace of the chosen engine. The memory must be aligned to 256 bytes.
  std::int64_t workspace_bytes() const;

  /// Puts it on a stream (a CUstream), which may be capturing. The op's operands and result are on the
  /// device.
  void run(const void* first, const void* second, void* result, void* workspace, void* stream) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rewire::codegen
