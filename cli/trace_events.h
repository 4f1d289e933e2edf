// What a program's launches take as a trace that ui.perfetto.dev and chrome://tracing open: Chrome's JSON trace events.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/exec/engine.h"

namespace rewire::cli {

/// A stretch of the start-up, one behind the other.
struct TraceStage {
  std::string name;
  double seconds = 0;
};

/// Two threads of one process: "start-up", the stages; `program`, each launch as long as it took alone, one behind the other
/// in the program's order, with its place, bytes, flops and rates. Microseconds, both from 0.
nlohmann::ordered_json trace_events(const std::vector<TraceStage>& stages, const std::string& program,
                                    const std::vector<runtime::LaunchTime>& times);

}  // namespace rewire::cli
