// The runtime's log: one line a message, to whatever sink the program has given spdlog's default logger. It
// keeps spdlog's headers, which cost seconds a file, in one place.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace rewire::runtime {

enum class LogLevel : std::uint8_t { debug, info, warning };

/// One line: what a terminal does not show as itself is made visible.
void write_log(LogLevel level, std::string_view message);
/// For as long as it lives it is told each message too, whatever the log shows, from any thread but one at a time.
/// There is one at a time, and it neither throws nor logs.
class LogListener {
 public:
  using Listen = std::function<void(LogLevel, std::string_view message)>;
  explicit LogListener(Listen listen);
  ~LogListener();
  LogListener(const LogListener&) = delete;
  LogListener& operator=(const LogListener&) = delete;

 private:
  const Listen listen_;
};

/// The first message of a topic in a process, whoever has it.
void write_log_once(LogLevel level, std::string_view topic, std::string_view message);

}  // namespace rewire::runtime
