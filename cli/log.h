// Where the log goes: lines on stderr, "rewire: warning: …". Results go to stdout and never through the log.
// What is logged goes through runtime/log.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rewire::cli {

/// From the most to the least talkative: debug, info, warning, error, off.
std::vector<std::string> log_level_names();
/// Lines below this level are dropped.
void set_up_log(std::string_view level);
/// On stderr, whatever becomes of it: a terminal that has gone must not end a run.
void write_stderr(std::string_view text);
/// What stands in the buffer of stdout goes out; std::system_error if it cannot, as fmt::print throws it.
void flush_stdout();
/// Whether info is logged: without it, progress is not shown either.
bool logs_info();

}  // namespace rewire::cli
