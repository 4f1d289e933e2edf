// The runtime's log: one line a message, to whatever sink the program has given spdlog's default logger. It
// keeps spdlog's headers, which cost seconds a file, in one place.
#pragma once

#include <cstdint>
#include <string_view>

namespace rewire::runtime {

enum class LogLevel : std::uint8_t { debug, info, warning };

/// One line: what a terminal does not show as itself is made visible.
void write_log(LogLevel level, std::string_view message);
/// The first message of a topic in a process, whoever has it.
void write_log_once(LogLevel level, std::string_view topic, std::string_view message);

}  // namespace rewire::runtime
