// The one file of the runtime that includes spdlog.
#include "runtime/log.h"

#include <spdlog/spdlog.h>

namespace rewire::runtime {

void write_log(LogLevel level, std::string_view message) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn};
  spdlog::log(kLevels[static_cast<std::size_t>(level)], "{}", message);
}

}  // namespace rewire::runtime
