// Prints the differences between two networks or two runs as text.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace rewire::cli {

/// Prints the object of runtime::network_diff() or run_diff(): a line for each subject, then its
/// differences. `full`: all of them, not only the first ones.
void print_diff(const nlohmann::ordered_json& diff, bool full);

}  // namespace rewire::cli
