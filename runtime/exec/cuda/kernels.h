// The kernels of an engine on a GPU: one for each structure, whichever programs it stands in; printed with
// the schedule that was chosen for it, compiled by NVRTC or taken from the cache on disk, and loaded.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/cuda/emit.h"
#include "codegen/object_cache.h"
#include "runtime/device/cuda/device.h"
#include "runtime/exec/engine.h"
#include "runtime/exec/kernel_override.h"
#include "runtime/exec/tune/choice_record.h"

namespace rewire::runtime {

/// Where and how kernels are compiled.
struct CompileOptions {
  std::string cache_directory;  // of machine code, which the next engine finds there; "": nothing is kept
  int processes = 1;            // that compile; 1: this one
};

struct CudaKernel {
  std::string name;
  void* function = nullptr;
  cuda::KernelGrid grid;
  std::int64_t spill_bytes = 0;  // of a thread
};

/// The key of the choice of a launch's schedule (tile_choices.h): the architecture, the extents of the
/// kernel's axes, the members of a table, and a hash of the structure. Launches of one key run the same.
std::string schedule_key(const codegen::KernelLaunch& launch, const codegen::cuda::DeviceTarget& target);

class CudaKernels {
 public:
  /// `choices`: the schedules that were chosen; a kernel that has none there, or one that does not fit it,
  /// takes the cost model's. UserError if NVRTC is missing.
  CudaKernels(const codegen::cuda::DeviceTarget& target, const CompileOptions& compiling,
              ChoiceRecord choices = {});

  /// These kernels in place of those of their names among `launches`, the first of each, with the cost
  /// model's schedule, which is what `rewire dump` prints. UserError on a name that none has, and on a text
  /// that NVRTC refuses. Before anything is loaded.
  void replace(std::span<const KernelOverride> overrides,
               std::span<const codegen::KernelLaunch* const> launches);
  /// In the order of `launches`. Tables of one structure share a kernel, whatever the number of their
  /// members: the grid is one member's.
  std::vector<CudaKernel> load(std::span<const codegen::KernelLaunch* const> launches);

  /// A launch with a schedule; nullopt: the cost model's.
  struct Scheduled {
    const codegen::KernelLaunch* launch = nullptr;
    std::optional<codegen::cuda::Schedule> schedule;
  };
  /// Schedules that fit.
  std::vector<CudaKernel> load(std::span<const Scheduled> launches);

  /// With the schedule that was chosen; overrides do not count.
  KernelText text(const codegen::KernelLaunch& launch);

  /// What a kernel that is loaded takes.
  KernelUse use(const codegen::KernelLaunch& launch);

  struct Statistics {
    int kernels = 0, unique = 0, cache_hits = 0;
  };
  const Statistics& statistics() const { return statistics_; }

 private:
  struct Loaded {
    cuda::Module module;
    CudaKernel kernel;
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
  std::vector<Fresh> fresh_of(std::span<const Scheduled> launches) const;
  /// As it was chosen; a line in the log where that does not fit.
  Scheduled chosen(const codegen::KernelLaunch& launch);
  std::optional<codegen::cuda::Schedule> recorded(const codegen::KernelLaunch& launch,
                                                  const std::string& key) const;
  void take_cached(std::vector<Fresh>& fresh);
  void compile(std::vector<Fresh>& fresh) const;
  Loaded load(const Fresh& fresh) const;
  void load_all(std::vector<Fresh>& fresh);

  codegen::cuda::DeviceTarget target_;
  int processes_;
  std::string identity_;
  std::optional<codegen::ObjectCache> cache_;
  const ChoiceRecord choices_;
  std::unordered_map<std::string, std::optional<codegen::cuda::Schedule>> chosen_;  // by schedule_key()
  std::set<std::string> replaced_;                  // text_key() of what is not our text
  std::unordered_map<std::string, Loaded> loaded_;  // by text_key() and the schedule
  Statistics statistics_;
};

/// How many processes compile on this machine: one a core, as far as memory goes.
int compile_processes();

}  // namespace rewire::runtime
