// The kernels of an engine on a GPU: one for each structure, whichever programs it stands in; printed,
// compiled by NVRTC or taken from the cache on disk, and loaded.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/cuda/emit.h"
#include "codegen/object_cache.h"
#include "runtime/device/cuda/device.h"

namespace rewire::runtime {

struct CudaKernel {
  std::string name;
  void* function = nullptr;
  cuda::KernelGrid grid;
};

class CudaKernels {
 public:
  /// `cache_directory` "": nothing is kept. UserError if NVRTC is missing.
  CudaKernels(const codegen::cuda::DeviceTarget& target, const std::string& cache_directory);

  /// In the order of `kernels`.
  std::vector<CudaKernel> load(std::span<const codegen::tile::Kernel* const> kernels);

  struct Statistics {
    int kernels = 0, unique = 0, cache_hits = 0;
  };
  const Statistics& statistics() const { return statistics_; }

 private:
  struct Loaded {
    cuda::Module module;
    CudaKernel kernel;
  };
  Loaded make(const codegen::tile::Kernel& kernel);
  std::string machine_code(const std::string& name, const std::string& text);

  codegen::cuda::DeviceTarget target_;
  std::string identity_;
  std::optional<codegen::ObjectCache> cache_;
  std::unordered_map<std::string, Loaded> loaded_;  // by structure
  Statistics statistics_;
};

}  // namespace rewire::runtime
