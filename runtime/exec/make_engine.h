// The engines by name: the one place that a command asks for one. "jit" and "evaluator" compute on the CPU,
// "cuda" on an NVIDIA GPU.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "runtime/exec/engine.h"
#include "runtime/exec/engine_row.h"
#include "runtime/exec/kernel_override.h"
#include "runtime/exec/tune/tuner.h"

namespace rewire::runtime {

/// Where compiled kernels are kept: $XDG_CACHE_HOME/rewire, else ~/.cache/rewire; "" (none) without a home.
std::string kernel_cache_directory();
/// The same, if it can be used; "" and a line in the log if not: compiling takes longer then.
std::string usable_kernel_cache();

/// Those of the CPU. The first is what a command uses when none is asked for.
std::vector<std::string> engine_names();
/// The engine of a GPU.
inline constexpr std::string_view kCudaEngine = "cuda";

/// UserError in one line if this machine lacks what the engine needs: "cuda" a driver, a device, NVRTC and
/// cuBLASLt.
void require_engine(std::string_view name);
/// UserError where a module that allows TF32 is to be compiled for the CPU, which has none. The evaluator
/// computes in double precision whatever a module allows.
void require_precision(std::string_view name, const ir::Module& module);
/// UserError with the nearest match for an unknown name, and as require_precision(). The module must be
/// verified. `threads` compute, where the engine has threads; 0: usable_cores(). `choices`: a tuner's record,
/// for what an engine itself takes from it. `overrides` are a GPU's: UserError for another engine.
std::unique_ptr<Engine> make_engine(std::string_view name, const ir::Module& module, int threads = 0,
                                    const ChoiceRecord& choices = {},
                                    const std::vector<KernelOverride>& overrides = {});
/// The same for those that compile. UserError for one that does not.
std::unique_ptr<JitEngine> make_compiling_engine(std::string_view name, const ir::Module& module,
                                                 int threads = 0, const ChoiceRecord& choices = {},
                                                 const std::vector<KernelOverride>& overrides = {});

EngineFacts engine_facts(std::string_view name);

/// How a command wants what timing decides.
struct ChoiceOptions {
  ChoiceRecord given;    // made before: taken as they are
  bool autotune = true;  // false: the cost model decides the others
};
/// For programs that this engine is to run, timed on all cores whatever their own threads: an answer holds
/// for every number of threads. An engine that compiles nothing has nothing to time.
Tuner make_tuner(std::string_view engine, const ChoiceOptions& options);

}  // namespace rewire::runtime
