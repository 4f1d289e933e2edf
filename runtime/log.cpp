// The one file of the runtime that includes spdlog.
#include "runtime/log.h"

#include <spdlog/spdlog.h>

#include <mutex>
#include <set>
#include <string>

#include "ir/printable.h"

namespace rewire::runtime {

void write_log(LogLevel level, std::string_view message) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn};
  spdlog::log(kLevels[static_cast<std::size_t>(level)], "{}", visible(message));
}

void write_log_once(LogLevel level, std::string_view topic, std::string_view message) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> written;
  const std::lock_guard lock(mutex);
  if (written.emplace(topic).second) write_log(level, message);
}

}  // namespace rewire::runtime
