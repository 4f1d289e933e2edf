// Sets up the log: lines on stderr, "rewire: warning: …". Results go to stdout and never through the log.
// runtime/device/log.h writes to it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rewire::cli {

/// Returns the levels from most to least verbose: debug, info, warning, error, off.
std::vector<std::string> log_level_names();
/// Sets up the log to drop lines below this level.
void set_up_log(std::string_view level);
/// Returns whether info is logged. If not, progress is not shown either.
bool logs_info();

}  // namespace rewire::cli
