// Convolutions and their gradients by cuDNN (cudnn.h), each a graph of one operation. Results are the same bits each
// time, and as precise as the shape says: engines that add in any order are left out, and those that round operands
// of f32 to TF32 unless it allows that.
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
  /// With the plan of `engine`, perhaps named by another process; else of the first that makes one, in the order of
  /// cuDNN's heuristic. Engines that want more workspace are left out. UnsupportedGraph if there is none.
  CudnnConvolution(const Cudnn& library, const DeviceConvolution& convolution, std::int64_t workspace_limit,
                   std::string_view engine = {});
  ~CudnnConvolution();
  CudnnConvolution(CudnnConvolution&&) noexcept;
  CudnnConvolution& operator=(CudnnConvolution&&) noexcept;

  /// Those that cuDNN knows for the shape, in its order, as cudnn::Engines::names() has them.
  const std::vector<std::string>& engines() const;
  /// Makes the plan of one of these. False, and nothing changes, if there is no such engine here, or it refuses
  /// after all.
  bool choose(std::string_view engine);
  const std::string& chosen() const;
  /// Of the engine chosen. The memory must be aligned to 256 bytes.
  std::int64_t workspace_bytes() const;

  /// The op's operands and result, on the device. Puts it on a stream (a CUstream), which may be capturing.
  void run(const void* first, const void* second, void* result, void* workspace, void* stream) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rewire::codegen
