// The explorer's data of a network, which `explore` shows and `diff` compares.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/explore/explore.h"
#include "runtime/network/network.h"

namespace rewire::runtime {

struct ExploreOptions {
  std::string arch = "sm_90";    // for the CUDA C++
  bool profile = false;          // also times of the launches, and the machine's ceilings
  bool ptx = false;              // also PTX, by NVRTC
  bool machine_code = true;      // also LLVM IR and assembly
  PluginNotation notation = {};  // shows the parameters of some plugins as formulas
};

/// Returns the data; docs/guide/explore.md lists the keys. Throws UserError as resolve_network() does, and
/// if `ptx` is set and NVRTC is missing. `began` is called at the beginning of each stage, with a line about it.
nlohmann::ordered_json explored(const NetworkRequest& request, const ExploreOptions& options,
                                const std::function<void(const std::string& stage)>& began);

}  // namespace rewire::runtime
