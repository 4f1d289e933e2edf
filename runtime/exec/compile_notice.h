// One line on what a start compiled, where that took so long that somebody wondered.
#pragma once

#include <string>

#include "runtime/exec/engine.h"

namespace rewire::runtime {

/// "compiled 37 kernels in 4.1 s; kept in ~/.cache/rewire, the next start takes them from there". "" where all came from
/// the cache, or it took less than a second. `cache`: the folder; "": nothing is kept.
std::string compile_notice(const EngineReport& report, const std::string& cache);

/// Writes it to the log (info), of an engine whose programs are compiled.
void log_compiled(const Engine& engine);

}  // namespace rewire::runtime
