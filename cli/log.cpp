#include "cli/log.h"

#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/spdlog.h>

#include "cli/streams.h"

namespace rewire::cli {
namespace {

using TerminalSink = spdlog::sinks::ansicolor_stderr_sink_mt;

/// Clears the moving progress line before it writes a message.
class LineSink final : public TerminalSink {
 public:
  void log(const spdlog::details::log_msg& message) override {
    cli::clear_line();
    TerminalSink::log(message);
  }
};

}  // namespace

std::vector<std::string> log_level_names() {
  return {"debug", "info", "warning", "error", "off"};
}

void set_up_log(std::string_view level) {
  auto logger = std::make_shared<spdlog::logger>("rewire", std::make_shared<LineSink>());
  logger->set_pattern("rewire: %^%l%$: %v");
  logger->set_level(spdlog::level::from_str(std::string(level)));
  spdlog::set_default_logger(std::move(logger));
}

bool logs_info() {
  return spdlog::should_log(spdlog::level::info);
}

}  // namespace rewire::cli
