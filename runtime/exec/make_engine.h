// The engines by name; every command gets its engine here. "jit" and "evaluator" compute on the CPU, "cuda"
// on an NVIDIA GPU.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "runtime/exec/engine.h"
#include "runtime/exec/engine_row.h"
#include "runtime/exec/tune/tuner.h"

namespace rewire::runtime {

/// The folder of compiled kernels: $XDG_CACHE_HOME/rewire, else ~/.cache/rewire; "" (none) without a home.
std::string kernel_cache_directory();
/// Returns kernel_cache_directory() if it can be used; else "", with a line in the log: compiling takes
/// longer then.
std::string usable_kernel_cache();

/// Returns the names of the CPU's engines. A command uses the first by default.
std::vector<std::string> engine_names();
/// The name of the GPU's engine.
inline constexpr std::string_view kCudaEngine = "cuda";

/// Returns false if the engine computes on a device with a memory of its own.
bool computes_on_host(std::string_view name);

/// Makes an engine that computes on a device take this one, by its number or UUID; "": the first. Comes before all else
/// of the engine. Throws UserError if there is no such device.
void choose_device(std::string_view name, std::string_view which);
/// Throws UserError in one line if this machine lacks what the engine needs: "cuda" a driver, a device,
/// NVRTC and cuBLASLt.
void require_engine(std::string_view name);
/// Throws UserError if a module that allows TF32 is to be compiled for the CPU, which has none. The
/// evaluator computes in double precision whatever a module allows.
void require_precision(std::string_view name, const ir::Module& module);
/// Makes the engine of a verified module. Throws UserError with the nearest match for an unknown name, for
/// overrides on a CPU, and as require_precision().
std::unique_ptr<Engine> make_engine(std::string_view name, const ir::Module& module,
                                    const EngineSettings& settings = {});
/// Makes an engine that compiles. Throws UserError for one that does not.
std::unique_ptr<JitEngine> make_compiling_engine(std::string_view name, const ir::Module& module,
                                                 const EngineSettings& settings = {});

/// Chooses this rank's device, if the engine computes on one; all ranks of the group call it, before anything else of the
/// engine. Throws UserError if a host has more ranks than devices.
void share_devices(std::string_view name, Group& group);

EngineFacts engine_facts(std::string_view name);

/// Options for choices made by timing.
struct ChoiceOptions {
  ChoiceRecord given;    // made before, taken as they are
  bool autotune = true;  // false: the cost model decides the others
};
/// Makes a tuner for programs that this engine is to run. It times on all cores, so that an answer holds for
/// every number of threads. An engine that compiles nothing has nothing to time.
Tuner make_tuner(std::string_view engine, const ChoiceOptions& options);

}  // namespace rewire::runtime
