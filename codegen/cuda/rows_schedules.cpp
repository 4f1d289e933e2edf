#include "codegen/cuda/rows_schedules.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "codegen/cuda/kernel_text.h"
#include "codegen/tile/walk.h"

namespace rewire::codegen::cuda {
namespace {

using tile::AxisUse;
using tile::Kernel;
using tile::Node;

constexpr int kBlockThreads = 256;
constexpr int kLiveRegisters = 96;                      // the most registers of a thread's arrays together
constexpr int kSideBySide = 64;                         // the fewest lanes that a group should span
constexpr int kSectorLanes = 8;                         // the same where blocks are few: 32 bytes of f32
constexpr std::int64_t kLongWalk = 128;                 // rows that a few blocks walk: each waits in turn
constexpr int kCrowded = 10000;                         // from this cost on, nothing fits
constexpr int kFewRegisters = 20, kSomeRegisters = 64;  // registers of a thread's arrays
constexpr int kLeastRegisters = 8;                      // few enough for kMostResident threads
constexpr int kNear = 100;                              // cuts that cost this much more are not tried
constexpr int kMostChunks = 4;                          // per thread, if lanes are cut
constexpr int kMostElements = 256;                      // per thread, in any schedule but the model's
constexpr int kMostRepeats = 64;
constexpr int kRegistersPerBlock = 65536;
constexpr int kRegistersOfThread = 255;
constexpr int kMostPartBlocks = 4;   // per multiprocessor, if they walk parts and wait for memory in turn
constexpr int kBesideArrays = 48;    // registers per thread of such blocks, besides its arrays
constexpr int kBesideRow = 24;       // registers per thread of a block row, besides arrays and scalars
constexpr int kWantedElements = 12;  // per thread: enough loads in flight, few registers
constexpr std::int64_t kMergeBytes = 49152;  // shared memory for the groups' carried values

// --- facts

/// Calls `visit` with each access to memory.
template <class Visit>
void visit_accesses(const Kernel& kernel, Visit visit) {
  visit_nodes(kernel, [&](const Node& node) {
    const tile::Access* access = tile::access_of(node);
    if (access != nullptr && !std::holds_alternative<tile::Random>(node)) visit(*access);
  });
}

bool has_reduction(const Kernel& kernel) {
  bool found = false;
  visit_nodes(kernel, [&](const Node& node) { found = found || std::holds_alternative<tile::Reduce>(node); });
  return found;
}

/// Returns whether one block must compute all rows and lanes. Blocks may run in any order, so otherwise each
/// row and lane must touch an argument that is read and written at one place of its own.
bool is_one_block(const Kernel& kernel) {
  std::map<std::int32_t, const tile::Access*> first;
  bool shared = false;
  visit_accesses(kernel, [&](const tile::Access& access) {
    if (kernel.arguments[static_cast<std::size_t>(access.argument)].use != tile::ArgumentUse::read_write)
      return;
    const auto [known, fresh] = first.try_emplace(access.argument, &access);
    if (!fresh && (known->second->offset != access.offset || known->second->strides != access.strides))
      shared = true;
    for (std::size_t axis = 0; axis < kernel.axes.size(); ++axis)
      shared = shared || (kernel.axes[axis].extent > 1 && access.strides[axis] == 0);
  });
  return shared;
}

int widest_vector(const Kernel& kernel, std::int64_t lanes) {
  std::int64_t bytes = 16;
  visit_accesses(kernel, [&](const tile::Access& access) {
    if (lane_pattern(kernel, access) != LanePattern::contiguous) return;
    const auto dtype = kernel.arguments[static_cast<std::size_t>(access.argument)].dtype;
    bytes = std::min(bytes, static_cast<std::int64_t>(ir::dtype_bytes(dtype)));
  });
  const std::int64_t most = bytes == 16 ? 1 : std::min<std::int64_t>(16 / bytes, 8);
  return static_cast<int>(std::gcd(lanes, most));
}

// --- registers

/// Returns the registers that a thread's arrays may take, if all of them are alive. In a block row of many
/// arrays, these are all the registers left: with fewer threads per row, fewer threads hold its scalars, and
/// more rows are in flight.
int allowed_registers(const RowFacts& facts, int threads) {
  if (threads <= 32 || !facts.has_many_arrays()) {
    const int of_a_thread =
        std::min(kRegistersOfThread, kRegistersPerBlock / std::max(threads, kBlockThreads));
    return std::min(kLiveRegisters, of_a_thread * 3 / 4 - 32);
  }
  const int of_a_thread = std::min(kRegistersOfThread, kRegistersPerBlock / threads);
  return (of_a_thread - kBesideRow - facts.live.scalars) * 3 / 2;
}

/// Estimates the registers per thread in a block row of many arrays. About two thirds of what a level reads
/// and writes are alive at once. If that is too few, the rest is spilled (up to 56 registers, in a row of 22
/// streams), and another row in flight makes up for it.
int registers_of_row(const RowFacts& facts, int elements) {
  return facts.live.arrays * elements * 2 / 3 + facts.live.scalars + kBesideRow;
}

bool is_block_row(const RowFacts& facts, const RowsSchedule& schedule) {
  return schedule.threads > 32 && !facts.cuts_lanes();
}
bool is_block_of_many(const RowFacts& facts, const RowsSchedule& schedule) {
  return is_block_row(facts, schedule) && facts.has_many_arrays();
}

/// Returns how many rows, one per block, a multiprocessor has registers for. Its warps are divided into four
/// parts.
int resident_rows(const RowFacts& facts, const RowsSchedule& schedule) {
  const int warps_of_part = kRegistersPerBlock / 4 / 32 / registers_of_row(facts, schedule.elements());
  return std::min(warps_of_part * 4 * 32, kMostResident) / schedule.block_threads();
}

/// Returns whether the registers suffice for the threads of a multiprocessor, as the cost model estimates
/// them.
bool has_room(const RowFacts& facts, const RowsSchedule& schedule) {
  const int arrays = facts.live.arrays * schedule.elements();
  // Rows that are walked one after another need few registers besides their arrays.
  if (facts.walks_alone() && schedule.resident_blocks <= kMostPartBlocks &&
      (arrays + kBesideArrays) * schedule.resident_blocks * schedule.block_threads() <= kRegistersPerBlock)
    return true;
  if (is_block_of_many(facts, schedule) && schedule.resident_blocks <= resident_rows(facts, schedule) + 2)
    return true;
  const int most = arrays <= kLeastRegisters  ? kMostResident
                   : arrays <= kFewRegisters  ? 1024
                   : arrays <= kSomeRegisters ? 512
                                              : kBlockThreads;
  return schedule.resident_blocks * schedule.block_threads() <= most;
}

// --- cuts: how the lanes of a row are spread over a group's threads

struct Cut {
  int vector = 1, threads = 1, chunks = 1;
  int cost = 0;  // kCrowded or more: the cut takes too many registers
};

/// Returns the percentage of elements that hold no lane, for `threads` threads with `chunks` vectors each.
int waste(const RowFacts& facts, int threads, int chunks, int vector) {
  const std::int64_t span = std::int64_t{threads} * chunks * vector;
  const std::int64_t spans = (facts.lanes + span - 1) / span;
  return static_cast<int>(100 - 100 * facts.lanes / (spans * span));
}

/// Returns cuts for rows that stay whole. Part of a warp shares a row, or a block if that takes too many
/// registers.
std::vector<Cut> cuts_of_rows(const RowFacts& facts) {
  const int live = std::max(facts.live.arrays, 1);
  std::vector<Cut> list;
  const auto consider = [&](int threads, int vector) {
    const auto chunks = static_cast<int>((facts.lanes / vector + threads - 1) / threads);
    const int elements = chunks * vector;
    const int allowed = allowed_registers(facts, threads);
    const int wanted = std::clamp(allowed / live, 1, kWantedElements);
    int cost = 4 * waste(facts, threads, chunks, vector) + 3 * std::abs(elements - wanted) +
               8 * std::countr_zero(static_cast<unsigned>(facts.widest / vector));
    if (threads > 32) cost += 60;
    if (elements * live > allowed) cost = kCrowded + elements * live - allowed;
    list.push_back({vector, threads, chunks, cost});
  };
  for (int vector = facts.widest; vector >= 1; vector /= 2) {
    for (int threads = 1; threads <= 32; threads *= 2) consider(threads, vector);
    for (int threads = 64; threads <= kMostThreads; threads += 32) consider(threads, vector);
  }
  return list;
}

int most_threads_of_lanes(const RowFacts& facts) {
  return facts.by_partition ? 32 : kBlockThreads;
}

/// Returns cuts for lanes that are independent of each other.
std::vector<Cut> cuts_of_lanes(const RowFacts& facts) {
  const int live = std::max(facts.live.arrays, 1);
  int vector = facts.widest;
  while (vector > 1 && vector * live > kLiveRegisters) vector /= 2;
  const int budget = std::max(kLiveRegisters / live, vector);
  const std::int64_t all = facts.rows * facts.outer * (facts.lanes / vector);
  const std::int64_t filled = all / (std::int64_t{facts.multiprocessors} * 1024);
  // The end of a sum of many parts, over few lanes: narrow groups are more, in more blocks.
  const bool walks_long = facts.by_partition && facts.partitions == 1 && facts.rows > kLongWalk &&
                          facts.lanes < std::int64_t{kSideBySide} * facts.multiprocessors;
  const int least = walks_long ? kSectorLanes : kSideBySide;
  std::vector<Cut> list;
  for (int threads = 1; threads <= most_threads_of_lanes(facts); threads *= 2) {
    if (facts.bounded && threads < 32) continue;
    for (int chunks = 1; chunks <= kMostChunks && chunks * vector <= budget; ++chunks) {
      if (chunks > 1 && chunks > filled) continue;  // use more threads first
      const int side_by_side = threads * vector;    // lanes that neighbouring threads load at once
      const bool cut_short = side_by_side < least && side_by_side * chunks < facts.lanes;
      const int cost = 4 * waste(facts, threads, chunks, vector) + (kMostChunks - chunks) * 5 +
                       3 * least / std::min(side_by_side, least) + (cut_short ? 100 : 0);
      list.push_back({vector, threads, chunks, cost});
    }
  }
  return list;
}

/// Returns the cuts, the cheapest first.
std::vector<Cut> cuts_of(const RowFacts& facts) {
  std::vector<Cut> list = facts.cuts_lanes() ? cuts_of_lanes(facts) : cuts_of_rows(facts);
  std::ranges::stable_sort(list, {}, &Cut::cost);
  return list;
}

// --- schedules

/// Returns whether shared memory holds the groups' carried values, which are added up at the end.
bool merges_in_room(const RowsSchedule& schedule) {
  const std::int64_t bytes = std::int64_t{schedule.block_threads()} * schedule.elements() * 8;
  return bytes <= kMergeBytes || schedule.block_threads() <= 64 || schedule.groups == 1;
}

/// Returns the number of groups per block. They walk all rows, or the rows of a partition.
int groups_of(const RowFacts& facts, const RowsSchedule& schedule, int block_threads) {
  if (is_block_row(facts, schedule)) return 1;
  if (facts.by_partition && !facts.adds_up) return std::max(1, 32 / schedule.threads);
  if (facts.bounded) return 1;
  const std::int64_t walked = facts.by_partition ? facts.rows_per_partition() : facts.rows;
  RowsSchedule next = schedule;
  next.groups = std::max(block_threads / next.threads, 1);
  while (next.block_threads() > 32 && next.groups / 2 >= walked) next.groups /= 2;
  while (facts.by_partition && !merges_in_room(next)) next.groups /= 2;
  return next.groups;
}

/// Returns the rows per group: several, as long as every multiprocessor has blocks to choose from.
int repeats_of(const RowFacts& facts, const RowsSchedule& schedule) {
  if (facts.by_partition) return 1;
  if (facts.is_one_block) return static_cast<int>((facts.rows + schedule.groups - 1) / schedule.groups);
  if (!facts.shares_prologue) return 1;
  const std::int64_t blocks =
      facts.outer * (facts.rows + schedule.groups - 1) / schedule.groups * lane_blocks(facts, schedule);
  return static_cast<int>(std::clamp<std::int64_t>(blocks / (std::int64_t{facts.multiprocessors} * 8), 1, 8));
}

RowsSchedule completed(const RowFacts& facts, const Cut& cut, int block_threads) {
  RowsSchedule schedule{cut.vector, cut.threads, cut.chunks, 1, 1, 1};
  schedule.groups = groups_of(facts, schedule, block_threads);
  schedule.repeats = repeats_of(facts, schedule);
  const int arrays = facts.live.arrays * schedule.elements();
  const int threads = arrays <= kFewRegisters ? 1024 : arrays <= kSomeRegisters ? 512 : 1;
  int resident = std::max(threads / schedule.block_threads(), facts.walks_alone() ? 2 : 1);
  if (is_block_of_many(facts, schedule)) resident = std::max(resident, resident_rows(facts, schedule));
  // Keeps at most as many blocks resident as there are to run, so that a few blocks may use all registers.
  const std::int64_t blocks = facts.outer * row_blocks(facts, schedule) * lane_blocks(facts, schedule);
  const std::int64_t share = (blocks + facts.multiprocessors - 1) / facts.multiprocessors;
  const std::int64_t most = std::min<std::int64_t>(share, kMostResident / schedule.block_threads());
  schedule.resident_blocks = static_cast<int>(std::clamp<std::int64_t>(resident, 1, most));
  if (!has_room(facts, schedule)) schedule.resident_blocks = 1;
  return schedule;
}

bool fits_lanes(const RowFacts& facts, const RowsSchedule& schedule) {
  const std::int64_t span = std::int64_t{schedule.threads} * schedule.vector;
  if (facts.widest % schedule.vector != 0 || (schedule.chunks - 1) * span >= facts.lanes) return false;
  const bool power = std::has_single_bit(static_cast<unsigned>(schedule.threads));
  if (facts.cuts_lanes()) return power && schedule.threads <= most_threads_of_lanes(facts);
  if (schedule.chunks * span < facts.lanes) return false;
  return schedule.threads <= 32 ? power : schedule.threads % 32 == 0 && schedule.threads <= kMostThreads;
}

bool fits_groups(const RowFacts& facts, const RowsSchedule& schedule) {
  const std::int64_t threads = std::int64_t{schedule.threads} * schedule.groups;
  if (threads % 32 != 0 || threads > kMostThreads) return false;
  if (schedule.resident_blocks > 1 && schedule.resident_blocks * threads > kMostResident) return false;
  if (is_block_row(facts, schedule)) return schedule.groups == 1;
  if (!facts.by_partition) return true;
  if (facts.bounded) return schedule.groups == 1;
  if (!facts.adds_up) return schedule.groups == std::max(1, 32 / schedule.threads);
  return merges_in_room(schedule);
}

bool fits_repeats(const RowFacts& facts, const RowsSchedule& schedule) {
  if (facts.by_partition || facts.is_one_block) return schedule.repeats == repeats_of(facts, schedule);
  return schedule.repeats <= kMostRepeats;
}

}  // namespace

bool RowFacts::has_many_arrays() const {
  return !cuts_lanes() && 4 * live.arrays > kLiveRegisters;
}

RowFacts row_facts(const Kernel& kernel, const RowLevels& levels, const DeviceTarget& target) {
  RowFacts facts;
  facts.multiprocessors = target.multiprocessors;
  facts.lanes = extent_of(kernel, axes_of(kernel, AxisUse::lane));
  facts.rows = kernel.row_count();
  facts.outer = extent_of(kernel, axes_of(kernel, AxisUse::outer));
  facts.bounded = kernel.bounds.has_value();
  if (facts.bounded)  // of an instance, on average
    facts.rows = std::max<std::int64_t>(1, kernel.bounds->visits / facts.outer);
  const bool has_rows = !axes_of(kernel, AxisUse::row).empty();
  if (!has_rows) std::swap(facts.outer, facts.rows);
  facts.partitions = kernel.partitions;
  facts.by_partition = walks_parts(kernel);
  facts.adds_up = levels.adds_up();
  facts.has_reduction = has_reduction(kernel);
  facts.is_one_block = is_one_block(kernel);
  facts.shares_prologue = !facts.by_partition && !facts.is_one_block && has_rows &&
                          std::ranges::any_of(levels.homes, [](const ValueHome& home) {
                            return home.array && home.section == SectionId::prologue;
                          });
  facts.widest = widest_vector(kernel, facts.lanes);
  return facts;
}

ModelledRows modelled_rows(const RowFacts& facts) {
  const Cut best = cuts_of(facts).front();
  return {completed(facts, best, kBlockThreads), best.cost >= kCrowded};
}

std::vector<RowsSchedule> rows_schedules(const RowFacts& facts, std::size_t most) {
  const RowsSchedule model = modelled_rows(facts).schedule;
  std::vector<RowsSchedule> list = {model};
  const auto add = [&](const RowsSchedule& next) {
    if (list.size() < most && has_room(facts, next) && fits(facts, next) &&
        std::ranges::find(list, next) == list.end())
      list.push_back(next);
  };
  const std::vector<Cut> all = cuts_of(facts);
  const auto add_cuts = [&](std::size_t count) {
    const int worst = std::min(all[0].cost + kNear, kCrowded - 1);
    for (std::size_t i = 1; i < all.size() && all[i].cost <= worst && count > 0; ++i) {
      const std::size_t before = list.size();
      add(completed(facts, all[i], kBlockThreads));
      count -= list.size() - before;
    }
  };
  const auto add_with = [&](int RowsSchedule::* number, int value) {
    RowsSchedule next = model;
    next.*number = value;
    add(next);
  };
  if (facts.walks_alone()) {
    for (const int resident : {2, kMostPartBlocks}) add_with(&RowsSchedule::resident_blocks, resident);
  }
  if (is_block_of_many(facts, model)) {
    for (const int more : {1, -1, 2}) add_with(&RowsSchedule::resident_blocks, model.resident_blocks + more);
  }
  add_cuts(1);
  if (facts.shares_prologue && std::int64_t{model.repeats} * model.groups < facts.rows)
    add_with(&RowsSchedule::repeats, 2 * model.repeats);
  add(completed(facts, all[0], kBlockThreads / 2));
  add_cuts(1);
  add(completed(facts, all[0], kBlockThreads * 2));
  add_with(&RowsSchedule::resident_blocks, std::max(kMostResident / model.block_threads(), 1));
  if (facts.shares_prologue) add_with(&RowsSchedule::repeats, 1);
  add_cuts(most);
  return list;
}

bool fits(const RowFacts& facts, const RowsSchedule& schedule) {
  for (const int number : {schedule.vector, schedule.threads, schedule.chunks, schedule.groups,
                           schedule.repeats, schedule.resident_blocks}) {
    if (number < 1) return false;
  }
  return fits_lanes(facts, schedule) && fits_groups(facts, schedule) && fits_repeats(facts, schedule) &&
         (schedule.elements() <= kMostElements || schedule == modelled_rows(facts).schedule);
}

std::int64_t lane_blocks(const RowFacts& facts, const RowsSchedule& schedule) {
  if (!facts.cuts_lanes()) return 1;
  const std::int64_t span = std::int64_t{schedule.threads} * schedule.chunks;
  return (facts.lanes / schedule.vector + span - 1) / span;
}

std::int64_t row_blocks(const RowFacts& facts, const RowsSchedule& schedule) {
  const std::int64_t step = std::int64_t{schedule.groups} * schedule.repeats;
  return facts.by_partition ? facts.partitions : (facts.rows + step - 1) / step;
}

}  // namespace rewire::codegen::cuda
