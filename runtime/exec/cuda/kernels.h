// The kernels of a GPU's engine: one per structure, shared by all programs. Each is printed with its chosen
// schedule, compiled by NVRTC or taken from the cache on disk, and loaded.
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

/// Options for compiling kernels.
struct CompileOptions {
  std::string cache_directory;  // for machine code, reused by later engines; "": nothing is kept
  int processes = 1;            // compiling processes; 1: this one alone
};

struct CudaKernel {
  std::string name;
  void* function = nullptr;
  cuda::KernelGrid grid;
  std::int64_t spill_bytes = 0;  // per thread
};

/// Returns the key for the choice of a launch's schedule (tile_choices.h): the architecture, the extents of
/// the kernel's axes, the members of a table, and a hash of the structure. Launches of one key run the same
/// code on the same extents.
std::string schedule_key(const codegen::KernelLaunch& launch, const codegen::cuda::DeviceTarget& target);

class CudaKernels {
 public:
  /// `choices` are the chosen schedules. A kernel without one, or with one that does not fit, takes the cost
  /// model's. Throws UserError if NVRTC is missing.
  CudaKernels(const codegen::cuda::DeviceTarget& target, const CompileOptions& compiling,
              ChoiceRecord choices = {});

  /// Replaces the kernels of these names among `launches`, the first of each, with the cost model's
  /// schedule, as in `rewire dump`. Throws UserError on a name that none has, and on a text that NVRTC
  /// refuses. Call it before anything is loaded.
  void replace(std::span<const KernelOverride> overrides,
               std::span<const codegen::KernelLaunch* const> launches);
  /// Loads kernels in the order of `launches`. Tables of one structure share a kernel, whatever the number
  /// of their members: the grid is one member's.
  std::vector<CudaKernel> load(std::span<const codegen::KernelLaunch* const> launches);

  /// A launch with a schedule; nullopt: the cost model's.
  struct Scheduled {
    const codegen::KernelLaunch* launch = nullptr;
    std::optional<codegen::cuda::Schedule> schedule;
  };
  /// Loads kernels with schedules that fit.
  std::vector<CudaKernel> load(std::span<const Scheduled> launches);

  /// Returns the text with the chosen schedule; overrides do not count.
  KernelText text(const codegen::KernelLaunch& launch);

  /// Returns the resources of a loaded kernel.
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
  /// A kernel that is not loaded yet.
  struct Fresh {
    std::string key;
    codegen::cuda::KernelSource source;
    std::string cubin;
    std::int64_t spill_bytes = 0;
    const KernelOverride* given = nullptr;  // if the text is an override
  };
  /// Returns the kernels that are not loaded, one per key.
  std::vector<Fresh> fresh_of(std::span<const Scheduled> launches) const;
  /// Returns the chosen schedule; logs a line if it does not fit.
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
  std::set<std::string> replaced_;                  // text_key() of overridden kernels
  std::unordered_map<std::string, Loaded> loaded_;  // by text_key() and the schedule
  Statistics statistics_;
};

/// Returns how many processes compile on this machine: one per core, as far as memory allows.
int compile_processes();

}  // namespace rewire::runtime
