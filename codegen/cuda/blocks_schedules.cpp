#include "codegen/cuda/blocks_schedules.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "codegen/cuda/kernel_text.h"
#include "codegen/tile/walk.h"

namespace rewire::codegen::cuda {
namespace {

constexpr std::int64_t kBesideProducts = 60;     // registers per thread besides the elements of products
constexpr std::int64_t kBesideChains = 48;       // the same, if other products are chained to them
constexpr std::int64_t kWiderTile = 16;          // more registers for each 8 columns beyond 16, at most
constexpr std::int64_t kMostRegisters = 255;     // registers per thread
constexpr std::int64_t kHeldRegisters = 128;     // registers per thread for chained sums and held rows
constexpr std::int64_t kHeldWarps = 8;           // the most warps of a block that hold rows
constexpr std::int64_t kSchedulers = 4;          // per multiprocessor, each with warps of its own
constexpr std::int64_t kRegisters = 16384 / 32;  // registers of a scheduler per lane of its warps
constexpr std::int64_t kReservedShared = 1024;   // bytes per block that the system reserves
constexpr std::int64_t kFewestWarps = 4, kMostWarps = 8;  // per block with products on tensor cores
constexpr std::int64_t kMostChainedWarps = 16;            // the same, if other products are chained to them
constexpr int kFewestThreads = 64, kMostBlockThreads = 256;  // per block without them
constexpr int kResidentThreads = 2048;                       // threads per multiprocessor

std::int64_t blocks_in_shared(const BlockFacts& facts) {
  return (facts.shared_bytes_per_block + kReservedShared) / (facts.shared_bytes + kReservedShared);
}

bool takes_width(const ProductFacts& product, std::int64_t width) {
  if (width < 1 || width > product.column_tiles) return false;
  if (product.whole_rows) return width == product.column_tiles;
  // A chained product takes 16 columns at once.
  if (!product.chained.empty() && width % 2 != 0 && width != product.column_tiles) return false;
  if (product.is_first() && product.window % (8 * width) != 0) return false;
  // store_tile exchanges the stored elements among a row's threads in groups of four times 8 columns. A window
  // has few tiles, so it also takes store_two, which writes half as much at once.
  const bool by_two = product.is_second() && width == 2;
  if (product.stores_columns && product.column_tiles >= 4 && width % 4 != 0 && !by_two) return false;
  return width <= 4 || std::ssize(product.inner) * 4 * width <= 48;
}

/// Estimates the registers per thread of one step, without a limit.
std::int64_t registers_of(const BlockFacts& facts, const ProductFacts& product, std::int64_t width,
                          std::int64_t warps) {
  const std::int64_t chained = product.chained_registers() + product.waiting_registers;
  const std::int64_t held = holds_rows(facts, product, warps) ? product.row_registers() : 0;
  const std::int64_t registers = std::ssize(product.inner) * 4 * width + chained + held +
                                 (chained > 0 ? kBesideChains : kBesideProducts);
  return (registers + 7) / 8 * 8;
}

/// Returns whether a block's threads have the registers for a width. A scheduler's warps share its registers.
bool has_registers(const BlockFacts& facts, const ProductFacts& product, std::int64_t width,
                   std::int64_t warps) {
  const std::int64_t beyond = std::max<std::int64_t>(width - 2, 0) * kWiderTile;
  if (product.is_first() && warps < product.row_tiles) return false;
  return warps <= kHeldWarps ||
         registers_of(facts, product, width, warps) + beyond <= kRegisters / parts_of(warps, kSchedulers);
}

struct Width {
  std::int64_t clocks = 0;  // estimate for the step
  std::int64_t width = 1;   // of a warp's tile, in 8 columns
};

/// Returns the possible widths of a warp's tile, the fastest first.
std::vector<Width> widths_of(const BlockFacts& facts, const ProductFacts& product, std::int64_t warps) {
  const auto clocks_of_product = [](std::int64_t inner, std::int64_t loads, std::int64_t width) {
    return inner * (loads + 4 * parts_of(width, 2) + 2 * width);
  };
  std::vector<Width> widths;
  for (std::int64_t width = 1; width <= product.column_tiles; ++width) {
    if (!takes_width(product, width) || !has_registers(facts, product, width, warps)) continue;
    std::int64_t tile = width * 24;  // clocks of the work on its elements
    for (const std::int64_t inner : product.inner)
      tile += clocks_of_product(inner, holds_rows(facts, product, warps) ? 0 : 4, width);
    for (const std::int64_t columns : product.chained)
      tile += clocks_of_product(parts_of(width, 2), 0, columns);
    const std::int64_t right = parts_of(product.column_tiles, width);
    const std::int64_t turns = product.chained.empty() ? parts_of(product.row_tiles * right, warps)
                                                       : parts_of(product.row_tiles, warps) * right;
    widths.push_back({product.windows * turns * tile, width});
  }
  std::ranges::stable_sort(widths, {}, &Width::clocks);
  return widths;
}

std::int64_t clocks_of(const BlockFacts& facts, std::int64_t warps) {
  std::int64_t clocks = 0;
  for (const ProductFacts& product : facts.products)
    clocks += widths_of(facts, product, warps).front().clocks;
  return clocks;
}

/// Estimates the registers per thread.
std::int64_t registers_of(const BlockFacts& facts, const std::vector<int>& widths, std::int64_t warps) {
  std::int64_t registers = 0;
  for (std::size_t i = 0; i < facts.products.size(); ++i)
    registers = std::max(registers, registers_of(facts, facts.products[i], widths[i], warps));
  return std::min(registers, kMostRegisters);
}

/// Returns how many blocks both the registers and the shared memory of a multiprocessor can hold.
int resident_of(const BlockFacts& facts, const BlockSchedule& schedule) {
  const std::int64_t registers = registers_of(facts, schedule.widths, schedule.threads / 32);
  const std::int64_t warps = kRegisters / registers * kSchedulers;
  const std::int64_t blocks = std::min(warps * 32 / schedule.threads, blocks_in_shared(facts));
  return static_cast<int>(std::clamp<std::int64_t>(blocks, 1, kResidentThreads / schedule.threads));
}

BlockSchedule of_warps(const BlockFacts& facts, std::int64_t warps) {
  BlockSchedule schedule{static_cast<int>(warps * 32), 1, {}};
  for (const ProductFacts& product : facts.products)
    schedule.widths.push_back(static_cast<int>(widths_of(facts, product, warps).front().width));
  schedule.resident_blocks = resident_of(facts, schedule);
  return schedule;
}

bool can_have(const BlockFacts& facts, std::int64_t warps) {
  return std::ranges::all_of(
      facts.products, [&](const ProductFacts& product) { return !widths_of(facts, product, warps).empty(); });
}

/// Returns the numbers of warps worth using. In a step with chained products, a warp without rows of its own
/// idles most of the time.
std::vector<std::int64_t> warps_of(const BlockFacts& facts) {
  std::int64_t rows = 0;
  for (const ProductFacts& product : facts.products) {
    if (!product.chained.empty()) rows = std::max(rows, product.row_tiles);
  }
  const std::int64_t most = rows == 0 ? kMostWarps : std::clamp(rows, kFewestWarps, kMostChainedWarps);
  std::vector<std::int64_t> counts;
  for (std::int64_t warps = kFewestWarps; warps <= most; ++warps) {
    if (can_have(facts, warps)) counts.push_back(warps);
  }
  return counts;
}

/// Returns a schedule without tensor cores. Dots need several resident blocks to hide their latency; long
/// lists of sums need registers instead.
BlockSchedule of_threads(const BlockFacts& facts, int threads) {
  return {threads, facts.has_dots ? std::max(512 / threads, 1) : 1, {}};
}

int modelled_threads(const BlockFacts& facts) {
  int threads = kFewestThreads;
  while (threads < kMostBlockThreads && facts.points > std::int64_t{threads} * 2) threads *= 2;
  return threads;
}

/// Returns the schedule of the number of warps that the facts set; nullopt if they set none, or it does not fit.
std::optional<BlockSchedule> of_set_warps(const BlockFacts& facts) {
  if (facts.warps == 0 || !can_have(facts, facts.warps)) return std::nullopt;
  const BlockSchedule schedule =
      facts.products.empty() ? of_threads(facts, facts.warps * 32) : of_warps(facts, facts.warps);
  return fits(facts, schedule) ? std::optional(schedule) : std::nullopt;
}

/// Sets the number of resident blocks. With fewer blocks, each thread has more registers.
BlockSchedule with_blocks(BlockSchedule schedule, int blocks) {
  schedule.resident_blocks = blocks;
  return schedule;
}

/// Takes the next best width for the step that takes the most time. Returns the model's schedule if no step
/// has another width.
BlockSchedule with_next_width(const BlockFacts& facts, const BlockSchedule& model) {
  BlockSchedule schedule = model;
  std::int64_t most = 0;
  for (std::size_t i = 0; i < facts.products.size(); ++i) {
    const std::vector<Width> widths = widths_of(facts, facts.products[i], model.threads / 32);
    if (widths.size() < 2 || widths[0].clocks <= most) continue;
    most = widths[0].clocks;
    schedule.widths = model.widths;
    schedule.widths[i] = static_cast<int>(widths[1].width);
  }
  schedule.resident_blocks = resident_of(facts, schedule);
  return schedule;
}

}  // namespace

BlockFacts block_facts(const tile::Kernel& kernel, const BlockPlan& plan, const DeviceTarget& target) {
  BlockFacts facts;
  facts.shared_bytes = plan.shared_bytes;
  facts.shared_bytes_per_block = target.shared_bytes_per_block;
  facts.warps = target.block_warps;
  for (const auto* section : {&plan.prologue, &plan.body, &plan.epilogue}) {
    for (const BlockStep& step : *section) {
      facts.points = std::max(facts.points, extent_of(kernel, step.lanes) * extent_of(kernel, step.reduced));
      facts.has_dots = facts.has_dots || step.kind == StepKind::dot;
      if (step.kind != StepKind::tensor_dot) continue;
      const std::int64_t before = facts.products.empty() ? 0 : facts.products.back().chained_registers();
      facts.products.push_back(product_facts(kernel, step));
      if (facts.products.back().is_second()) facts.products.back().waiting_registers = before;
    }
  }
  return facts;
}

/// Returns the cost model's schedule. With products on tensor cores, it takes the fewest warps that need at
/// most 10% more time than the best number of warps, since shared memory limits the warps of a
/// multiprocessor.
BlockSchedule modelled_block(const BlockFacts& facts) {
  if (const auto set = of_set_warps(facts)) return *set;
  if (facts.products.empty()) return of_threads(facts, modelled_threads(facts));
  const std::vector<std::int64_t> counts = warps_of(facts);
  std::int64_t best = clocks_of(facts, counts[0]);
  for (const std::int64_t warps : counts) best = std::min(best, clocks_of(facts, warps));
  const auto fewest = std::ranges::find_if(
      counts, [&](std::int64_t warps) { return clocks_of(facts, warps) * 10 <= best * 11; });
  return of_warps(facts, *fewest);
}

std::vector<BlockSchedule> block_schedules(const BlockFacts& facts, std::size_t most) {
  const BlockSchedule model = modelled_block(facts);
  std::vector<BlockSchedule> list = {model};
  const bool set = facts.warps > 0 && model.threads == facts.warps * 32;
  const auto add = [&](const BlockSchedule& next) {
    if (set && next.threads != model.threads) return;
    if (list.size() < most && fits(facts, next) && std::ranges::find(list, next) == list.end())
      list.push_back(next);
  };
  if (facts.products.empty()) {
    for (const int threads : {model.threads * 2, model.threads / 2}) {
      if (threads >= kFewestThreads && threads <= kMostBlockThreads) add(of_threads(facts, threads));
    }
    add(with_blocks(model, model.resident_blocks / 2));
    return list;
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> others;  // clocks, warps
  for (const std::int64_t warps : warps_of(facts)) {
    if (warps * 32 != model.threads) others.emplace_back(clocks_of(facts, warps), warps);
  }
  std::ranges::sort(others);
  if (!others.empty()) add(of_warps(facts, others[0].second));
  add(with_next_width(facts, model));
  add(with_blocks(model, model.resident_blocks - 1));
  for (const auto& [clocks, warps] : others) add(of_warps(facts, warps));
  return list;
}

bool fits(const BlockFacts& facts, const BlockSchedule& schedule) {
  if (schedule.threads < 32 || schedule.threads > 1024 || schedule.threads % 32 != 0) return false;
  if (schedule.resident_blocks < 1 || schedule.resident_blocks > kResidentThreads / schedule.threads)
    return false;
  if (schedule.widths.size() != facts.products.size()) return false;
  for (std::size_t i = 0; i < facts.products.size(); ++i) {
    const ProductFacts& product = facts.products[i];
    if (!takes_width(product, schedule.widths[i])) return false;
    if (!has_registers(facts, product, schedule.widths[i], schedule.threads / 32)) return false;
  }
  return true;
}

bool can_walk(const BlockFacts& facts) {
  return !warps_of(facts).empty();
}

bool holds_rows(const BlockFacts& facts, const ProductFacts& product, std::int64_t warps) {
  const std::int64_t chained = product.chained_registers();
  return warps <= kHeldWarps && chained > 0 && !product.whole_rows && blocks_in_shared(facts) < 2 &&
         chained + product.row_registers() <= kHeldRegisters;
}

}  // namespace rewire::codegen::cuda
