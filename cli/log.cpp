#include "cli/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace rewire::cli {

std::vector<std::string> log_level_names() {
  return {"debug", "info", "warning", "error", "off"};
}

void set_up_log(std::string_view level) {
  auto logger =
      std::make_shared<spdlog::logger>("rewire", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("rewire: %^%l%$: %v");
  logger->set_level(spdlog::level::from_str(std::string(level)));
  spdlog::set_default_logger(std::move(logger));
}

bool logs_info() {
  return spdlog::should_log(spdlog::level::info);
}

}  // namespace rewire::cli
