#include "cli/times.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <vector>

#include "cli/json.h"
#include "cli/streams.h"
#include "codegen/cost.h"
#include "codegen/library/device_convolution.h"
#include "codegen/library/device_gemm.h"
#include "runtime/exec/launch_times.h"

namespace rewire::cli {
namespace {

struct LaunchRow {
  runtime::LaunchTime time;
  std::string_view bound;
};

/// As the engine names the launch, without the algorithm; "" where it has no name of its own.
std::string library_name(const codegen::Program& program, const codegen::Launch& launch, bool tf32) {
  if (const auto* gemm = std::get_if<codegen::GemmLaunch>(&launch))
    return codegen::full_name(codegen::device_gemm_calls(program, *gemm, tf32).front().shape);
  const auto* call = std::get_if<codegen::OpCall>(&launch);
  const auto convolution = call == nullptr ? std::nullopt : codegen::device_convolution(program, *call, tf32);
  return convolution ? codegen::full_name(*convolution) : "";
}

std::vector<LaunchRow> rows_of(const codegen::Program& program, const codegen::cuda::DeviceTarget& target,
                               const codegen::cuda::Card& card, bool tf32) {
  std::vector<double> seconds;
  std::vector<runtime::LaunchLabel> labels;
  std::map<std::string, codegen::cuda::Prediction> known;  // of launches of one code
  std::map<std::string, std::string_view> bounds;          // by the row's name
  for (const codegen::Launch& launch : program.launches) {
    labels.push_back({library_name(program, launch, tf32)});
    const bool named = !labels.back().name.empty();
    const std::string key = named ? labels.back().name : codegen::code_key(launch);
    auto found = known.find(key);
    if (found == known.end())
      found = known.emplace(key, codegen::cuda::predict(program, launch, target, card, tf32)).first;
    seconds.push_back(found->second.seconds);
    bounds.emplace(named ? key : codegen::short_name(launch), codegen::cuda::bound_name(found->second.bound));
  }
  std::vector<LaunchRow> rows;
  for (runtime::LaunchTime& time : runtime::launch_times(program, seconds, labels)) {
    const std::string_view bound = bounds.at(time.name);
    rows.push_back({std::move(time), bound});
  }
  return rows;
}

void print_object(const std::vector<LaunchRow>& rows, const codegen::cuda::Card& card,
                  const TimesRequest& request) {
  nlohmann::ordered_json object = {
      {"model", request.model}, {"program", request.program}, {"batch", request.batch}, {"card", card.name}};
  double total = 0;
  object["predicted"] = nlohmann::ordered_json::array();
  for (const auto& [time, bound] : rows) {
    total += time.seconds;
    object["predicted"].push_back({{"name", time.name},
                                   {"launches", time.launches},
                                   {"ms", time.seconds * 1e3},
                                   {"bytes", time.bytes},
                                   {"flops", time.flops},
                                   {"bound", bound}});
  }
  object["ms"] = total * 1e3;
  print_json(object);
}

void print_table(const std::vector<LaunchRow>& rows, const codegen::cuda::Card& card,
                 const TimesRequest& request) {
  double total = 0;
  for (const LaunchRow& row : rows) total += row.time.seconds;
  print("{} of {}, batch {}, predicted for {}\n\n{:>5} {:>7} {:>6} {:>8} {:>6} {:>8} {:<7} {}\n",
        request.program, request.model, request.batch, card.name, "count", "ms", "share", "MB", "GB/s",
        "GFLOP/s", "bound", "kernel or call");
  int launches = 0;
  for (const auto& [time, bound] : rows) {
    launches += time.launches;
    const auto bytes = static_cast<double>(time.bytes), flops = static_cast<double>(time.flops);
    print("{:>5} {:>7.3f} {:>5.1f}% {:>8.2f} {:>6.0f} {:>8.0f} {:<7} {}\n", time.launches, time.seconds * 1e3,
          100 * time.seconds / total, bytes * 1e-6, bytes / time.seconds * 1e-9, flops / time.seconds * 1e-9,
          bound, time.name);
  }
  print("{:>5} {:>7.3f}  one after the other\n", launches, total * 1e3);
}

}  // namespace

void print_times(const codegen::Program& program, const codegen::cuda::DeviceTarget& target,
                 const codegen::cuda::Card& card, const TimesRequest& request) {
  const std::vector<LaunchRow> rows = rows_of(program, target, card, request.tf32);
  request.json ? print_object(rows, card, request) : print_table(rows, card, request);
}

}  // namespace rewire::cli
