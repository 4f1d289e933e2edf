// The network of a bench: what was asked, the compiled network, and what was measured.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/choices.h"
#include "cli/data_limit.h"
#include "cli/engine.h"
#include "cli/trace_events.h"
#include "ir/module.h"
#include "runtime/exec/benchmark.h"
#include "runtime/exec/ceilings.h"
#include "runtime/exec/engine.h"
#include "runtime/network/network.h"

namespace rewire::cli {

struct BenchRequest {
  runtime::NetworkRequest network;
  ChoiceRequest choices;
  std::string mode = "train";
  std::int64_t batch = 0, steps = 20, threads = 0;
  bool profile = false, kernels = false, resident = false, json = false, pipe = false, ranks = false;
  bool data = false;
  std::string trace, variants;
  EngineRequest engine;
  std::vector<std::string> overrides;
};

struct BenchResult {
  std::int64_t images = 0;  // per step
  bool tf32 = false;
  runtime::RoundTimes fed;
  std::optional<runtime::RoundTimes> resident;
  std::optional<runtime::RoundTimes> refresh;  // of the optimizer, timed on its own
  std::int64_t refresh_period = 0;
  std::int64_t peak_bytes = 0;
  runtime::EngineReport engine;
  std::vector<runtime::LaunchTime> profile;
  std::optional<runtime::Ceilings> ceilings;
  runtime::ChoiceRecord choices;
  std::optional<DataLimit> data;
};

/// The programs of a round.
struct Bench {
  ir::Module module;
  std::vector<runtime::TimedProgram> programs;
  std::int64_t images = 0;
};

/// A compiled network with its weights, and the data with --data.
struct Prepared {
  runtime::Network network;
  std::unique_ptr<BenchData> data;
  Bench bench;
  std::string engine_name;
  int threads = 0;
  runtime::ChoiceRecord choices;
  std::unique_ptr<runtime::JitEngine> engine;
  std::vector<TraceStage> stages;  // stages of the start-up
};

/// Returns a program with random inputs.
runtime::TimedProgram timed(const ir::Module& module, const std::string& name, std::int64_t times);

/// Compiles the request's network, with fresh weights. Throws UserError as the commands that train do.
Prepared prepare(const BenchRequest& request);

nlohmann::ordered_json to_json(const BenchRequest& request, const BenchResult& result);

}  // namespace rewire::cli
