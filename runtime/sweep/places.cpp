#include "runtime/sweep/places.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "runtime/device/cuda/device.h"
#include "runtime/device/process.h"

namespace rewire::runtime {
namespace {

constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";

/// The GPUs that this process sees, as CUDA_VISIBLE_DEVICES names them.
std::vector<std::string> visible_gpus() {
  const auto count = static_cast<std::size_t>(cuda::device_count());
  std::vector<std::string> names;
  const char* listed = std::getenv(kVisible);
  std::istringstream list(listed == nullptr ? "" : listed);
  for (std::string name; std::getline(list, name, ',') && names.size() < count;) names.push_back(name);
  while (names.size() < count) names.push_back(std::to_string(names.size()));
  return names;
}

/// Where a core is: its socket, and its physical core there, which it may share with another.
std::pair<int, int> place_of_core(int core) {
  const auto number = [&](const char* name) {
    int value = 0;
    std::ifstream(fmt::format("/sys/devices/system/cpu/cpu{}/topology/{}", core, name)) >> value;
    return value;
  };
  return {number("physical_package_id"), number("core_id")};
}

}  // namespace

std::vector<ProcessPlace> divided_places(int count, bool on_gpu) {
  std::vector<ProcessPlace> places(static_cast<std::size_t>(count));
  if (places.size() <= 1) return places;
  std::vector<int> cores = allowed_cores();
  std::ranges::stable_sort(cores, {}, place_of_core);
  // A container may have more cores than it may use at once.
  cores.resize(std::min(cores.size(), static_cast<std::size_t>(usable_cores())));
  const std::vector<std::string> gpus = on_gpu ? visible_gpus() : std::vector<std::string>{};
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places.size() <= cores.size()) {
      const auto edge = [&](std::size_t part) {
        return cores.begin() + static_cast<std::ptrdiff_t>(part * cores.size() / places.size());
      };
      places[i].cores.assign(edge(i), edge(i + 1));
    } else if (!cores.empty()) {
      places[i].cores = {cores[i % cores.size()]};
    }
    if (gpus.size() > 1) places[i].device = gpus[i % gpus.size()];
  }
  return places;
}

}  // namespace rewire::runtime
