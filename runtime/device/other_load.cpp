#include "runtime/device/other_load.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "runtime/device/process.h"

namespace rewire::runtime {
namespace {

constexpr double kTicks = 100;  // a second: USER_HZ, in which /proc/stat counts on every machine

double wall_seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Returns the CPU seconds of this process and of the children that it waited for.
double own_cpu_seconds() {
  double seconds = 0;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    ::getrusage(who, &usage);
    for (const timeval& time : {usage.ru_utime, usage.ru_stime})
      seconds += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  }
  return seconds;
}

std::string read_proc_stat(const std::string& root) {
  std::ifstream file(root + "proc/stat");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

std::optional<double> busy_seconds(std::string_view proc_stat, const std::vector<int>& cpus) {
  std::istringstream lines{std::string(proc_stat)};
  std::optional<double> busy;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    const bool wanted =
        std::ranges::any_of(cpus, [&](int cpu) { return name == "cpu" + std::to_string(cpu); });
    if (!wanted) continue;
    // user nice system idle iowait irq softirq steal; guests are in user and nice.
    std::array<double, 8> ticks{};
    for (double& count : ticks) words >> count;
    constexpr std::size_t kIdle = 3, kIoWait = 4;
    for (std::size_t i = 0; i < ticks.size(); ++i)
      if (i != kIdle && i != kIoWait) busy = busy.value_or(0) + ticks[i] / kTicks;
  }
  return busy;
}

OtherLoad::OtherLoad(std::string root)
    : root_(std::move(root)),
      allowed_(allowed_cores()),
      wall_(wall_seconds_now()),
      own_(own_cpu_seconds()),
      busy_(busy_seconds(read_proc_stat(root_), allowed_)) {}

std::optional<double> OtherLoad::cpus() const {
  const double wall = wall_seconds_now() - wall_, own = own_cpu_seconds() - own_;
  const std::optional<double> busy = busy_seconds(read_proc_stat(root_), allowed_);
  if (!busy || !busy_ || wall <= 0) return std::nullopt;
  return std::max(0.0, (*busy - *busy_ - own) / wall);
}

}  // namespace rewire::runtime
