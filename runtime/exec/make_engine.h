// The engines by name: the one place that a command asks for one.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "runtime/exec/engine.h"
#include "runtime/exec/tuner.h"

namespace rewire::runtime {

/// Where compiled kernels are kept: $XDG_CACHE_HOME/rewire, else ~/.cache/rewire; "" (none) without a home.
std::string kernel_cache_directory();

/// The first is what a command uses when none is asked for.
std::vector<std::string> engine_names();
/// UserError with the nearest match for an unknown name. The module must be verified. `threads` compute,
/// where the engine has threads; 0: one a core.
std::unique_ptr<Engine> make_engine(std::string_view name, const ir::Module& module, int threads = 0);

/// How a command wants what timing decides.
struct ChoiceOptions {
  ChoiceRecord given;    // made before: taken as they are
  bool autotune = true;  // false: the cost model decides the others
};
/// For programs that this engine is to run, timed on all cores whatever their own threads: an answer holds
/// for every number of threads. An engine that compiles nothing has nothing to time.
Tuner make_tuner(std::string_view engine, const ChoiceOptions& options);

}  // namespace rewire::runtime
