// One line on what a start compiled, if it took noticeably long.
#pragma once

#include <string>

#include "runtime/exec/engine.h"

namespace rewire::runtime {

/// Returns "compiled 37 kernels in 4.1 s; kept in ~/.cache/rewire, the next start takes them from there", or
/// "" if all came from the cache or it took less than a second. `cache` is the folder; "": nothing is kept.
std::string compile_notice(const EngineReport& report, const std::string& cache);

/// Logs compile_notice() (info) for an engine that compiles its programs.
void log_compiled(const Engine& engine);

}  // namespace rewire::runtime
