// Compares two networks or two runs: their differences as one JSON object (docs/guide/diff.md has the keys).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/diff/network_facts.h"

namespace rewire::runtime {

/// The names of the two sides.
struct DiffNames {
  std::string a, b;
};

nlohmann::ordered_json network_diff(const NetworkFacts& a, const NetworkFacts& b, const DiffNames& names);

/// Compares two run folders by their files alone. Throws UserError if one is not a run folder.
nlohmann::ordered_json run_diff(const DiffNames& folders);

}  // namespace rewire::runtime
