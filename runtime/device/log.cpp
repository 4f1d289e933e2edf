// The one file of the runtime that includes spdlog.
#include "runtime/device/log.h"

#include <spdlog/spdlog.h>

#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "ir/printable.h"

namespace rewire::runtime {
namespace {

/// A listener in addition to the log's own sinks.
struct LogEar {
  std::mutex mutex;
  const LogListener::Listen* listen = nullptr;
};

LogEar& log_ear() {
  static LogEar ear;
  return ear;
}

}  // namespace

LogListener::LogListener(Listen listen) : listen_(std::move(listen)) {
  const std::lock_guard lock(log_ear().mutex);
  log_ear().listen = &listen_;
}

LogListener::~LogListener() {
  const std::lock_guard lock(log_ear().mutex);
  log_ear().listen = nullptr;
}

void write_log(LogLevel level, std::string_view message) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn};
  const std::string text = visible(message);
  {
    const std::lock_guard lock(log_ear().mutex);
    if (log_ear().listen != nullptr) (*log_ear().listen)(level, text);
  }
  spdlog::log(kLevels[static_cast<std::size_t>(level)], "{}", text);
}

void write_log_once(LogLevel level, std::string_view topic, std::string_view message) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> written;
  const std::lock_guard lock(mutex);
  if (written.emplace(topic).second) write_log(level, message);
}

}  // namespace rewire::runtime
