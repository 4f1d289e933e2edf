// What --device cuda needs of this machine: the driver, a GPU and NVIDIA's libraries, each with a verdict.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rewire::runtime {

/// Returns in one line why this machine cannot compute on its device (cuda::own_device()): no driver, no device, no
/// NVRTC that knows it, no cuBLASLt; "": it can.
std::string cuda_missing();

enum class CudaVerdict : std::uint8_t { usable, slow, unusable };
/// Returns "usable", "slow" or "not usable".
std::string_view verdict_name(CudaVerdict verdict);

/// The driver, a device or a library.
struct CudaPart {
  std::string name;       // "driver", "device 0", "NVRTC", …
  std::string found;      // "12.4 in /usr/local/cuda/lib64/libnvrtc.so.12"; "": nothing
  std::string note = {};  // more about it: free memory, other files that were found; "": nothing
  CudaVerdict verdict = CudaVerdict::usable;
  std::string why = {};  // what is slow or not usable, and what to do; "" if it is usable
};
struct CudaFacts {
  std::string missing;  // cuda_missing()
  std::string summary;  // whether --device cuda is usable, and on which device
  std::string device;   // the device that it takes, as "NVIDIA H100 80GB HBM3, sm_90"; "": none
  std::vector<CudaPart> parts;
};
/// Opens the driver and the libraries as --device cuda does. Makes no context and loads no kernel.
CudaFacts probe_cuda();

}  // namespace rewire::runtime
