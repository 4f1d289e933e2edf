#include "runtime/exec/launch_times.h"

#include <algorithm>
#include <functional>
#include <map>

#include "codegen/cost.h"

namespace rewire::runtime {

std::vector<LaunchTime> launch_times(const codegen::Program& program, const std::vector<double>& seconds,
                                     const std::vector<std::string>& labels, const UseOf& use_of) {
  std::map<std::string, std::size_t> known;
  std::vector<LaunchTime> times;
  for (std::size_t i = 0; i < program.launches.size(); ++i) {
    const codegen::Launch& launch = program.launches[i];
    const std::string label = labels.empty() ? std::string() : labels[i];
    const auto [it, fresh] = known.emplace(label.empty() ? codegen::code_key(launch) : label, times.size());
    if (fresh)
      times.push_back({label.empty() ? codegen::short_name(launch) : label, 0, 0, 0, 0, use_of(launch)});
    LaunchTime& time = times[it->second];
    const codegen::LaunchCost cost = codegen::cost_of(program, launch);
    ++time.launches;
    time.seconds += seconds[i];
    time.bytes += cost.bytes;
    time.flops += cost.flops;
  }
  std::ranges::stable_sort(times, std::greater<>(), &LaunchTime::seconds);
  return times;
}

}  // namespace rewire::runtime
