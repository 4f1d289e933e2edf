#include "cli/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cli/json.h"
#include "cli/streams.h"

namespace rewire::cli {
namespace {

using runtime::StepCounts;
using runtime::StepPart;

nlohmann::ordered_json to_json(const StepCounts& counts) {
  return {{"kernels", counts.kernels},
          {"distinct_kernels", counts.distinct_kernels},
          {"calls", counts.calls},
          {"bytes", counts.bytes},
          {"arena_bytes", counts.arena_bytes},
          {"state_bytes", counts.state_bytes}};
}

nlohmann::ordered_json to_json(const std::vector<StepPart>& parts) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const StepPart& part : parts) {
    nlohmann::ordered_json object = {{"name", part.name}};
    object.update(to_json(part.added));
    list.push_back(std::move(object));
  }
  return list;
}

void print_object(const Summary& summary) {
  nlohmann::ordered_json object = {
      {"model", summary.model}, {"program", summary.program}, {"batch", summary.batch}};
  object.update(to_json(summary.counts.step));
  if (summary.compiled) {
    object["compile_s"] = summary.compiled->compile_seconds;
    object["cache_hits"] = summary.compiled->cache_hits;
  }
  object["without_plugins"] = to_json(summary.counts.plain);
  object["plugins"] = to_json(summary.counts.plugins);
  object["joins"] = to_json(summary.counts.joins);
  print_json(object);
}

void print_row(std::size_t width, const std::string& name, const StepCounts& counts) {
  print("{:<{}} {:>8} {:>9} {:>6} {:>10.2f} {:>9.2f} {:>9.2f}\n", name, width, counts.kernels,
        counts.distinct_kernels, counts.calls, megabytes(counts.bytes), megabytes(counts.arena_bytes),
        megabytes(counts.state_bytes));
}

void print_part(std::size_t width, const StepPart& part) {
  const StepCounts& added = part.added;
  print("{:<{}} {:>+8} {:>+9} {:>+6} {:>+10.2f} {:>+9.2f} {:>+9.2f}\n", part.name, width, added.kernels,
        added.distinct_kernels, added.calls, megabytes(added.bytes), megabytes(added.arena_bytes),
        megabytes(added.state_bytes));
}

void print_text(const Summary& summary) {
  const runtime::StepSummary& counts = summary.counts;
  const std::string whole = fmt::format("{}, batch {}", summary.program, summary.batch);
  std::size_t width = std::max<std::size_t>(whole.size(), 15);
  for (const auto* parts : {&counts.plugins, &counts.joins}) {
    for (const StepPart& part : *parts) width = std::max(width, part.name.size());
  }
  print("{:<{}} {:>8} {:>9} {:>6} {:>10} {:>9} {:>9}\n", "", width, "kernels", "distinct", "calls",
        "MB moved", "MB arena", "MB state");
  print_row(width, whole, counts.step);
  if (summary.program == "accumulate")
    print("of one batch; the optimizer's program, apply, and its state are not counted\n");
  if (!counts.plugins.empty()) print_row(width, "without plugins", counts.plain);
  for (const StepPart& part : counts.plugins) print_part(width, part);
  for (const StepPart& part : counts.joins) print_part(width, part);
  if (summary.compiled) {
    print("compiled in {:.2f} s, {} of {} kernels from the cache\n", summary.compiled->compile_seconds,
          summary.compiled->cache_hits, summary.compiled->unique_kernels);
  }
}

}  // namespace

void print_summary(const Summary& summary, bool json) {
  json ? print_object(summary) : print_text(summary);
}

}  // namespace rewire::cli
