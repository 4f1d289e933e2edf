// What differs between two networks or two runs, as text.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace rewire::cli {

/// Of the object that runtime::network_diff() or run_diff() made: a line for each subject, then what differs in it.
/// `full`: all of that, not the first of each.
void print_diff(const nlohmann::ordered_json& diff, bool full);

}  // namespace rewire::cli
