#include "cli/bench_ranks.h"

#include <fmt/format.h>

#include <exception>
#include <vector>

#include "cli/json.h"
#include "cli/streams.h"
#include "ir/error.h"
#include "runtime/group/group.h"
#include "runtime/group/group_times.h"

namespace rewire::cli {
namespace {

// A few kilobytes are a bucket of biases, 23 MB the gradients of a ViT-S, 88 MB those of a ViT-B in halves.
constexpr std::size_t kSizes[] = {4'000, 100'000, 1'000'000, 23'000'000, 88'000'000};

void print_text(const runtime::Group& group, const std::vector<runtime::SumTimes>& times) {
  print("{} ranks, {}\n{:>9} {:>10} {:>10} {:>8}\n", group.size(), runtime::mpi_version(), "MB", "ms", "GB/s",
        "hidden");
  for (const runtime::SumTimes& one : times)
    print("{:>9.3f} {:>10.3f} {:>10.2f} {:>6.0f} %\n", static_cast<double>(one.bytes) * 1e-6, one.sum_s * 1e3,
          one.sent_per_s(group.size()) * 1e-9, one.hidden() * 100);
  print(
      "MB of a rank's array, ms for its sum, GB/s that each rank sends, share of the time that a computation "
      "hides\n");
}

void print_object(const runtime::Group& group, const std::vector<runtime::SumTimes>& times) {
  nlohmann::ordered_json object = {{"ranks", group.size()}, {"mpi", runtime::mpi_version()}};
  for (const runtime::SumTimes& one : times)
    object["sums"].push_back({{"bytes", one.bytes},
                              {"sum_ms", one.sum_s * 1e3},
                              {"compute_ms", one.compute_s * 1e3},
                              {"both_ms", one.both_s * 1e3},
                              {"sent_gb_s", one.sent_per_s(group.size()) * 1e-9},
                              {"hidden", one.hidden()}});
  print_json(object);
}

}  // namespace

void bench_ranks(int runs, bool json) {
  const std::unique_ptr<runtime::Group> group = runtime::make_group();
  if (group->size() == 1)
    user_error("bench --ranks: this is one process; start several: mpirun -n 2 rewire bench --ranks");
  try {
    const std::vector<runtime::SumTimes> times =
        runtime::time_sums(*group, std::vector<std::size_t>(std::begin(kSizes), std::end(kSizes)), runs);
    if (group->rank() == 0) json ? print_object(*group, times) : print_text(*group, times);
    group->finish();
  } catch (const std::exception& error) {
    group->abort(error.what());
  }
}

}  // namespace rewire::cli
