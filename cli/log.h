// Where the log goes: lines on stderr, "rewire: warning: …". Results go to stdout and never through the log.
// What is logged goes through runtime/device/log.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rewire::cli {

/// From the most to the least talkative: debug, info, warning, error, off.
std::vector<std::string> log_level_names();
/// Lines below this level are dropped.
void set_up_log(std::string_view level);
/// Whether info is logged: without it, progress is not shown either.
bool logs_info();

}  // namespace rewire::cli
