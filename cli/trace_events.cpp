#include "cli/trace_events.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace rewire::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kProcess = 1;
constexpr int kStartUp = 1, kProgram = 2;  // threads

Json name_of_track(const char* what, int thread, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", kProcess}, {"tid", thread}, {"args", {{"name", name}}}};
}

/// Returns a span that begins at `at`, and moves `at` to its end.
Json span_event(const std::string& name, const char* category, int thread, double& at, double seconds) {
  Json event = {{"name", name},         {"cat", category}, {"ph", "X"},    {"ts", at * 1e6},
                {"dur", seconds * 1e6}, {"pid", kProcess}, {"tid", thread}};
  at += seconds;
  return event;
}

}  // namespace

Json trace_events(const std::vector<TraceStage>& stages, const std::string& program,
                  const std::vector<runtime::LaunchTime>& times) {
  Json events = Json::array({name_of_track("process_name", kStartUp, "rewire"),
                             name_of_track("thread_name", kStartUp, "start-up"),
                             name_of_track("thread_name", kProgram, program)});
  double at = 0;
  for (const TraceStage& stage : stages)
    events.push_back(span_event(stage.name, "start-up", kStartUp, at, stage.seconds));
  std::vector<std::pair<const runtime::LaunchSpan*, const runtime::LaunchTime*>> launches;
  for (const runtime::LaunchTime& time : times)
    for (const runtime::LaunchSpan& span : time.spans) launches.emplace_back(&span, &time);
  std::ranges::sort(launches, {}, [](const auto& launch) { return launch.first->at; });
  at = 0;
  for (const auto& [span, time] : launches) {
    Json event = span_event(time->name, "launch", kProgram, at, span->seconds);
    event["args"] = {{"place", span->place}, {"bytes", span->bytes}, {"flops", span->flops}};
    if (span->seconds > 0) {
      event["args"]["GB/s"] = static_cast<double>(span->bytes) / span->seconds * 1e-9;
      event["args"]["GFLOP/s"] = static_cast<double>(span->flops) / span->seconds * 1e-9;
    }
    events.push_back(std::move(event));
  }
  return {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
}

}  // namespace rewire::cli
