// Two networks side by side, or two runs: what differs between them as one JSON object (docs/guide/diff.md has the keys).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/diff/network_facts.h"

namespace rewire::runtime {

/// What one side of the comparison is called.
struct DiffNames {
  std::string a, b;
};

nlohmann::ordered_json network_diff(const NetworkFacts& a, const NetworkFacts& b, const DiffNames& names);

/// Of two run folders, which are read alone. UserError where one is none.
nlohmann::ordered_json run_diff(const DiffNames& folders);

}  // namespace rewire::runtime
