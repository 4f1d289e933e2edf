#include "runtime/exec/compile_notice.h"

#include <fmt/format.h>

#include <cstdlib>

#include "runtime/device/log.h"
#include "runtime/exec/make_engine.h"

namespace rewire::runtime {
namespace {

constexpr double kNoticedSeconds = 1;

/// Returns the path with ~ in place of this user's home.
std::string short_path(const std::string& path) {
  const char* home = std::getenv("HOME");
  const std::string prefix = home == nullptr ? "" : std::string(home) + "/";
  return prefix.size() > 1 && path.starts_with(prefix) ? "~/" + path.substr(prefix.size()) : path;
}

}  // namespace

std::string compile_notice(const EngineReport& report, const std::string& cache) {
  const int compiled = report.unique_kernels - report.cache_hits;
  if (compiled <= 0 || report.compile_seconds < kNoticedSeconds) return "";
  const std::string text = fmt::format("compiled {} kernel{} in {:.1f} s", compiled, compiled == 1 ? "" : "s",
                                       report.compile_seconds);
  if (cache.empty()) return text;
  return fmt::format("{}; kept in {}, the next start takes {} from there", text, short_path(cache),
                     compiled == 1 ? "it" : "them");
}

void log_compiled(const Engine& engine) {
  const auto* compiling = dynamic_cast<const JitEngine*>(&engine);
  if (compiling == nullptr) return;
  const std::string notice = compile_notice(compiling->report(), usable_kernel_cache());
  if (!notice.empty()) write_log(LogLevel::info, notice);
}

}  // namespace rewire::runtime
