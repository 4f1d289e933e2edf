// The explorer's data of a network: what explore shows and diff compares.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/progress.h"
#include "runtime/network/network.h"

namespace rewire::cli {

struct ExploreOptions {
  std::string arch = "sm_90";  // of the CUDA C++
  bool profile = false;        // also the times of the launches, and the machine's ceilings
  bool ptx = false;            // also PTX, by NVRTC
  bool machine_code = true;    // also LLVM IR and assembly
};

/// docs/guide/explore.md has the keys. UserError as resolve_network(), and with `ptx` where NVRTC is missing.
/// `progress` moves at each stage.
nlohmann::ordered_json explored(const runtime::NetworkRequest& request, const ExploreOptions& options,
                                MovingLine& progress);

}  // namespace rewire::cli
