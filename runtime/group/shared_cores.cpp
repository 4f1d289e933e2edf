#include "runtime/group/shared_cores.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/device/process.h"
#include "runtime/group/agreement.h"

namespace rewire::runtime {
namespace {

constexpr int kWordBits = 64;

bool may_use(const RankCores& rank, int core) {
  return (rank.bound[static_cast<std::size_t>(core / kWordBits)] >> (core % kWordBits) & 1) != 0;
}

RankCores cores_of_process() {
  RankCores cores;
  if (::gethostname(cores.host.data(), cores.host.size() - 1) != 0) cores.host[0] = '?';
  for (const int core : allowed_cores())
    cores.bound.at(static_cast<std::size_t>(core / kWordBits)) |= std::uint64_t{1} << (core % kWordBits);
  cores.usable = usable_cores();
  return cores;
}

}  // namespace

int core_share(std::span<const RankCores> ranks, int rank) {
  const RankCores& own = ranks[static_cast<std::size_t>(rank)];
  const auto on_host = [&](const RankCores& other) { return other.host == own.host; };
  int bound = 0;
  double share = 0;
  for (int core = 0; core < kWordBits * static_cast<int>(own.bound.size()); ++core) {
    if (!may_use(own, core)) continue;
    ++bound;
    share += 1.0 / static_cast<double>(std::ranges::count_if(ranks, [&](const RankCores& other) {
               return on_host(other) && may_use(other, core);
             }));
  }
  if (own.usable < bound || bound == 0)
    share = own.usable / static_cast<double>(std::ranges::count_if(ranks, on_host));
  constexpr double kRounding = 1e-9;  // of sums of 1 / n
  return std::max(1, static_cast<int>(std::floor(share + kRounding)));
}

int own_cores(Group& group) {
  return core_share(gathered(group, cores_of_process()), group.rank());
}

}  // namespace rewire::runtime
