// The runtime's log: one line per message, to the sink of spdlog's default logger, which the program sets.
// Only this part of the runtime includes spdlog's headers, which cost seconds per file.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace rewire::runtime {

enum class LogLevel : std::uint8_t { debug, info, warning };

/// Logs one line; characters that a terminal does not show are made visible.
void write_log(LogLevel level, std::string_view message);
/// Receives each message while it lives, whatever the log shows, from any thread but one at a time. At most
/// one listener exists; it neither throws nor logs.
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

/// Logs the first message of a topic in a process, whatever its caller.
void write_log_once(LogLevel level, std::string_view topic, std::string_view message);

}  // namespace rewire::runtime
