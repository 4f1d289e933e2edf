// A program's launch times as Chrome's JSON trace events, which ui.perfetto.dev and chrome://tracing open.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/exec/engine.h"

namespace rewire::cli {

/// A stage of the start-up. Stages follow one another.
struct TraceStage {
  std::string name;
  double seconds = 0;
};

/// Returns two threads of one process: "start-up" with the stages, and `program` with each launch at the
/// duration that it took alone, in program order, with its place, bytes, flops and rates. Both start at 0,
/// in microseconds.
nlohmann::ordered_json trace_events(const std::vector<TraceStage>& stages, const std::string& program,
                                    const std::vector<runtime::LaunchTime>& times);

}  // namespace rewire::cli
