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
#include "runtime/exec/engine.h"
#include "runtime/exec/kernel_override.h"

namespace rewire::runtime {

struct CudaKernel {
  std::string name;
  void* function = nullptr;
  cuda::KernelGrid grid;
};

class CudaKernels {
 public:
  /// `cache_directory` "": nothing is kept. `processes` compile. UserError if NVRTC is missing.
  CudaKernels(const codegen::cuda::DeviceTarget& target, const std::string& cache_directory, int processes);

  /// These kernels in place of those of their names among `launches`, the first of each. UserError on a name
  /// that none has, and on a text that NVRTC refuses. Before anything is loaded.
  void replace(std::span<const KernelOverride> overrides,
               std::span<const codegen::KernelLaunch* const> launches);
  /// In the order of `launches`. Tables of one structure share a kernel, whatever the number of their
  /// members: the grid is one member's.
  std::vector<CudaKernel> load(std::span<const codegen::KernelLaunch* const> launches);

  /// What a kernel that is loaded takes.
  KernelUse use(const codegen::KernelLaunch& launch) const;

  struct Statistics {
    int kernels = 0, unique = 0, cache_hits = 0;
  };
  const Statistics& statistics() const { return statistics_; }

 private:
  struct Loaded {
    cuda::Module module;
    CudaKernel kernel;
    std::int64_t spill_bytes = 0;
  };
  /// A kernel on its way.
  struct Fresh {
    std::string key;
    codegen::cuda::KernelSource source;
    std::string cubin;
    std::int64_t spill_bytes = 0;
    const KernelOverride* given = nullptr;  // where the text is not ours
  };
  /// Those that are not loaded, one a key.
  std::vector<Fresh> fresh_of(std::span<const codegen::KernelLaunch* const> launches) const;
  void take_cached(std::vector<Fresh>& fresh);
  void compile(std::vector<Fresh>& fresh) const;
  Loaded load(const Fresh& fresh) const;
  void load_all(std::vector<Fresh>& fresh);

  codegen::cuda::DeviceTarget target_;
  int processes_;
  std::string identity_;
  std::optional<codegen::ObjectCache> cache_;
  std::unordered_map<std::string, Loaded> loaded_;  // by text_key()
  Statistics statistics_;
};

/// How many processes compile on this machine: one a core, as far as memory goes.
int compile_processes();

}  // namespace rewire::runtime
