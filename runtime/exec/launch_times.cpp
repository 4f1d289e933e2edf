#include "runtime/exec/launch_times.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <variant>

#include "codegen/cost.h"

namespace rewire::runtime {
namespace {

/// Returns the place in a kernel's provenance line: "blocks.3.attn" of "residual at blocks.3.attn" or of
/// "at blocks.3.attn"; "" if there is none.
std::string_view place_in(std::string_view origin) {
  constexpr std::string_view kAt = "at ";
  const std::size_t found = origin.starts_with(kAt) ? 0 : origin.find(" at ");
  if (found == std::string_view::npos) return "";
  origin.remove_prefix(found + kAt.size() + (found == 0 ? 0 : 1));
  return origin.substr(0, origin.find_first_of(" :"));
}

struct PlaceOfLaunch {
  /// Returns the distinct places of the kernel's members, in order.
  std::string operator()(const codegen::KernelLaunch& launch) const {
    std::vector<std::string_view> places;
    for (const std::string& line : launch.kernel.origin) {
      const std::string_view place = place_in(line);
      if (!place.empty() && std::ranges::find(places, place) == places.end()) places.push_back(place);
    }
    return fmt::format("{}", fmt::join(places, ", "));
  }
  std::string operator()(const codegen::GemmLaunch& launch) const { return launch.location; }
  std::string operator()(const codegen::OpCall& call) const { return call.op.location; }
};

}  // namespace

std::vector<LaunchTime> launch_times(const codegen::Program& program, const std::vector<double>& seconds,
                                     const std::vector<LaunchLabel>& labels, const UseOf& use_of) {
  std::map<std::string, std::size_t> known;
  std::vector<LaunchTime> times;
  for (std::size_t i = 0; i < program.launches.size(); ++i) {
    const codegen::Launch& launch = program.launches[i];
    const LaunchLabel label = labels.empty() ? LaunchLabel() : labels[i];
    const bool named = !label.name.empty();
    const auto [it, fresh] = known.emplace(named ? label.name : codegen::code_key(launch), times.size());
    if (fresh) {
      times.push_back(
          {named ? label.name : codegen::short_name(launch), 0, 0, 0, 0, use_of(launch), label.products});
    }
    LaunchTime& time = times[it->second];
    const codegen::LaunchCost cost = codegen::cost_of(program, launch);
    ++time.launches;
    time.seconds += seconds[i];
    time.bytes += cost.bytes;
    time.flops += cost.flops;
    time.spans.push_back({i, seconds[i], cost.bytes, cost.flops, std::visit(PlaceOfLaunch(), launch)});
  }
  std::ranges::stable_sort(times, std::greater<>(), &LaunchTime::seconds);
  return times;
}

}  // namespace rewire::runtime
