#include "cli/times.h"

#include <fmt/format.h>

#include <vector>

#include "cli/json.h"
#include "cli/streams.h"
#include "runtime/exec/predicted_times.h"

namespace rewire::cli {
namespace {

void print_object(const std::vector<runtime::PredictedTime>& rows, const codegen::cuda::Card& card,
                  const TimesRequest& request) {
  nlohmann::ordered_json object = {
      {"model", request.model}, {"program", request.program}, {"batch", request.batch}, {"card", card.name}};
  double total = 0, least = 0;
  object["predicted"] = nlohmann::ordered_json::array();
  for (const auto& [time, bound, least_seconds] : rows) {
    total += time.seconds;
    least += least_seconds;
    object["predicted"].push_back({{"name", time.name},
                                   {"launches", time.launches},
                                   {"ms", time.seconds * 1e3},
                                   {"bytes", time.bytes},
                                   {"flops", time.flops},
                                   {"bound", bound},
                                   {"least_ms", least_seconds * 1e3}});
  }
  object["ms"] = total * 1e3;
  object["least_ms"] = least * 1e3;
  print_json(object);
}

void print_table(const std::vector<runtime::PredictedTime>& rows, const codegen::cuda::Card& card,
                 const TimesRequest& request) {
  double total = 0, least = 0;
  for (const runtime::PredictedTime& row : rows) {
    total += row.time.seconds;
    least += row.least_seconds;
  }
  print("{} of {}, batch {}, predicted for {}\n\n{:>5} {:>7} {:>6} {:>8} {:>6} {:>8} {:<7} {}\n",
        request.program, request.model, request.batch, card.name, "count", "ms", "share", "MB", "GB/s",
        "GFLOP/s", "bound", "kernel or call");
  int launches = 0;
  for (const auto& [time, bound, least_seconds] : rows) {
    launches += time.launches;
    const auto bytes = static_cast<double>(time.bytes), flops = static_cast<double>(time.flops);
    print("{:>5} {:>7.3f} {:>5.1f}% {:>8.2f} {:>6.0f} {:>8.0f} {:<7} {}\n", time.launches, time.seconds * 1e3,
          100 * time.seconds / total, bytes * 1e-6, bytes / time.seconds * 1e-9, flops / time.seconds * 1e-9,
          bound, time.name);
  }
  print("{:>5} {:>7.3f}  total, one launch at a time\n", launches, total * 1e3);
  print(
      "{:>5} {:>7.3f}  least: for each launch, the longer of its bytes at a copy's rate and its FLOPs at "
      "peak\n",
      "", least * 1e3);
}

}  // namespace

void print_times(const codegen::Program& program, const codegen::cuda::DeviceTarget& target,
                 const codegen::cuda::Card& card, const TimesRequest& request) {
  const std::vector<runtime::PredictedTime> rows =
      runtime::predicted_times(program, target, card, request.tf32);
  request.json ? print_object(rows, card, request) : print_table(rows, card, request);
}

}  // namespace rewire::cli
