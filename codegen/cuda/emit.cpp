// Chooses a kernel's form and writes it; see emit.h.
#include "codegen/cuda/emit.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "codegen/cuda/blocks.h"
#include "codegen/cuda/blocks_steps.h"
#include "codegen/cuda/rows.h"
#include "codegen/cuda/transposes.h"
#include "codegen/cuda/walks.h"
#include "ir/error.h"

namespace rewire::codegen::cuda {

namespace {

// The shared memory that a block may opt in to: CUDA C++ Programming Guide, "Technical Specifications per
// Compute Capability".
constexpr DeviceTarget kTargets[] = {{80, 166912, 108}, {86, 101376, 84},   {89, 101376, 142},
                                     {90, 232448, 132}, {100, 232448, 148}, {103, 232448, 160},
                                     {120, 101376, 188}};
constexpr std::int64_t kRoomyBlock = 160 << 10;  // bytes of shared memory: attention's larger tiles fit
constexpr std::int64_t kBesideTiles = 4096;  // bytes of a block besides its bf16 tiles, such as a row's sums

/// A block that walks the queries of attention's gradient has a warp for 16 keys, 16 warps at most. Each of
/// the four schedulers of a multiprocessor has 512 registers for each lane of its warps. 64 of a thread hold
/// its sums of dk and dv if the head has 64 channels, and as many its other values.
constexpr std::int64_t kStreamedKeys = 256, kStreamedSums = kStreamedKeys * 64;

/// Attention of more tokens walks tiles of them (tile/attention_walks.h). Up to there a block has tiles of 64
/// queries and more beside all keys.
constexpr std::int64_t kWalkedTokens = 256;

/// A part of a row space with column sums is one block. It has one row in flight, some 3 KB at a width of
/// 384, and waits for it twice. To keep memory busy, a multiprocessor of an H100 needs 20 KB in flight (3.3
/// TB/s times 0.8 us, over 132 multiprocessors). More parts mean more partial sums to finish.
constexpr std::int64_t kPartsOfMultiprocessor = 8;

/// Partial sums of one layer's gradients, up to 6.5 MB, wait until they can be finished with those of the
/// other layers. They are then read from memory instead of the L2 cache, which costs 2 us at 3 TB/s.
/// Finished alone, they would cost some 20 us and a launch: such a kernel has 9 to 12 blocks for 132
/// multiprocessors.
constexpr std::int64_t kTableBytes = 8 << 20;

/// For an H100 SXM: 67 TFLOP/s of f32 and 3.35 TB/s (its data sheet). The bytes that a step moves bound its
/// time, and it leaves most of the card's memory free. So a byte held in memory is worth no more than a byte
/// moved.
constexpr std::int64_t kFlopsPerByte = 20, kWorth = 1;

}  // namespace

std::vector<std::string> architecture_names() {
  std::vector<std::string> names;
  for (const DeviceTarget& target : kTargets) names.push_back(fmt::format("sm_{}", target.arch));
  return names;
}

DeviceTarget device_target(int arch) {
  for (const DeviceTarget& target : kTargets) {
    if (target.arch == arch) return target;
  }
  user_error("there are no kernels for sm_{}; choose from {}", arch, fmt::join(architecture_names(), ", "));
}

WorkGrain work_grain(const DeviceTarget& target) {
  const std::int64_t share = target.shared_bytes_per_block >= kRoomyBlock ? 1 : 2;
  const std::int64_t parts = kPartsOfMultiprocessor * std::int64_t{target.multiprocessors};
  WorkGrain grain;
  grain.elements_per_instance = 4096;
  grain.max_instances = parts;
  grain.lane_elements = 8192;
  grain.attention_elements = 4608 / share;
  grain.attention_adds_in_memory = false;
  grain.bias_like_result = grain.any_float_product = true;
  grain.narrow_attention_elements = 16384 / share;
  grain.narrow_gradient_elements = (target.shared_bytes_per_block - kBesideTiles) / 2;
  grain.narrow_summed_width = kChainedColumns;
  grain.narrow_streamed_keys = kStreamedKeys;
  grain.narrow_streamed_sums = kStreamedSums;
  grain.narrow_walked_tokens = kWalkedTokens;
  grain.erf_by_exp = true;
  grain.table_bytes = kTableBytes;
  grain.row_sum_lanes = 0;
  grain.lanes_side_by_side = 128;  // 8 threads of 16 elements: most plans of rows_plan.h
  grain.rows_at_once = 32;         // groups of 8 threads in a block of 256
  grain.group_ops = 1000;          // a join of four lanes in bf16 has more than 600
  grain.few_elements_ops = 200;    // a sum of many small weights' sums would spill
  grain.counted_places = 4096;     // beyond that, the device would wait for the host
  grain.ranked_scatters = true;
  grain.counted_pairs = std::numeric_limits<std::int64_t>::max();
  return grain;
}

ir::RecomputeCost recompute_cost() {
  return {kFlopsPerByte, kWorth, /*takes_best_chain=*/true};
}

namespace {

/// Returns true if a kernel that does not transpose becomes a row kernel (rows_plan.h), and false if it
/// becomes a block kernel. nullopt: a block of the target has too little shared memory for it.
std::optional<bool> form_of(const tile::Kernel& kernel, const DeviceTarget& target) {
  const auto rows = plan_rows(kernel, target);
  if (rows && !rows->crowded) return true;
  if (plan_walk(kernel, target)) return false;
  if (plan_block(kernel, target)) return false;
  if (rows) return true;
  return std::nullopt;
}

bool takes_rows(const tile::Kernel& kernel, const DeviceTarget& target) {
  if (const std::optional<bool> rows = form_of(kernel, target)) return *rows;
  internal_error("tile kernel {}: its on-chip data exceeds the {} bytes of shared memory of sm_{}",
                 kernel.name, target.shared_bytes_per_block, target.arch);
}

KernelSource write(const tile::Kernel& kernel, const EntryPoint& entry, const DeviceTarget& target,
                   const Schedule* schedule) {
  const auto* transpose = std::get_if<TransposeSchedule>(schedule);
  if (schedule == nullptr || transpose != nullptr) {
    if (const auto plan = plan_transpose(kernel, target, transpose))
      return emit_transpose(kernel, entry, *plan);
  }
  if (transpose == nullptr && takes_rows(kernel, target)) {
    const auto* rows = std::get_if<RowsSchedule>(schedule);
    if (schedule == nullptr || rows != nullptr) {
      if (const auto plan = plan_rows(kernel, target, rows)) return emit_rows(kernel, entry, *plan);
    }
  } else if (transpose == nullptr) {
    const auto* block = std::get_if<BlockSchedule>(schedule);
    if (schedule == nullptr || block != nullptr) {
      if (const auto plan = plan_walk(kernel, target, block)) return emit_walk(kernel, entry, *plan);
      if (const auto plan = plan_block(kernel, target, block)) return emit_block(kernel, entry, *plan);
    }
  }
  internal_error("tile kernel {}: the schedule '{}' does not fit it on sm_{}", kernel.name,
                 schedule_text(*schedule), target.arch);
}

/// Returns whether a block has room for what the kernel keeps on chip. If all values together fit, no plan
/// is made.
bool fits_on_chip(const tile::Kernel& kernel, const DeviceTarget& target) {
  std::int64_t bytes = 0;
  for (const tile::ValueInfo& value : kernel.values) {
    std::int64_t elements = 1;
    for (const std::int32_t lane : value.lanes)
      elements *= kernel.axes[static_cast<std::size_t>(lane)].extent;
    bytes += elements * arithmetic_bytes(value.dtype);
  }
  return bytes <= target.shared_bytes_per_block || form_of(kernel, target).has_value();
}

template <class One>
std::vector<Schedule> as_schedules(const std::vector<One>& list) {
  return {list.begin(), list.end()};
}

/// Appends row schedules to the schedules of a kernel that transposes, since it may take either form. The
/// model's choice stays first, and both forms are in the list.
std::vector<Schedule> with_rows(std::vector<Schedule> list, const std::vector<RowsSchedule>& rows,
                                std::size_t most) {
  if (!rows.empty() && list.size() == most && most > 1) list.pop_back();
  for (std::size_t i = 0; i < rows.size() && list.size() < most; ++i) list.emplace_back(rows[i]);
  return list;
}

}  // namespace

Target machine(const DeviceTarget& target, FuseOptions options) {
  options.grain = work_grain(target);
  Target machine{std::move(options), recompute_cost()};
  machine.chunk_bytes = 0;  // a GPU multiplies a chunk faster than it reads and writes the sum over chunks
  machine.narrow_convolution = [](ir::Opcode, const ir::ConvShape&, bool) { return true; };
  machine.accepts = [target](const Program& program, FuseOptions& fuse) {
    const bool fits = std::ranges::all_of(program.launches, [&](const Launch& launch) {
      const auto* kernel = std::get_if<KernelLaunch>(&launch);
      return kernel == nullptr || fits_on_chip(kernel->kernel, target);
    });
    if (fits || fuse.grain.lane_elements == 1) return true;
    fuse.grain.lane_elements /= 2;
    fuse.grain.attention_elements = std::max<std::int64_t>(fuse.grain.attention_elements / 2, 1);
    return false;
  };
  return machine;
}

std::vector<Schedule> schedules(const tile::Kernel& kernel, const DeviceTarget& target, std::size_t most) {
  const std::vector<Schedule> transposes = as_schedules(transpose_schedules(kernel, target, most));
  if (!transposes.empty()) return with_rows(transposes, rows_schedules(kernel, target, most), most);
  if (takes_rows(kernel, target)) return as_schedules(rows_schedules(kernel, target, most));
  const std::vector<Schedule> walks = as_schedules(walk_schedules(kernel, target, most));
  return walks.empty() ? as_schedules(block_schedules(kernel, target, most)) : walks;
}

bool fits(const tile::Kernel& kernel, const Schedule& schedule, const DeviceTarget& target) {
  if (const auto* transpose = std::get_if<TransposeSchedule>(&schedule))
    return plan_transpose(kernel, target, transpose).has_value();
  const auto* rows = std::get_if<RowsSchedule>(&schedule);
  if ((rows != nullptr) != takes_rows(kernel, target)) return false;
  if (rows != nullptr) return plan_rows(kernel, target, rows).has_value();
  const auto& block = std::get<BlockSchedule>(schedule);
  return plan_walk(kernel, target) ? plan_walk(kernel, target, &block).has_value()
                                   : plan_block(kernel, target, &block).has_value();
}

KernelSource emit(const tile::Kernel& kernel, const std::string& symbol, const DeviceTarget& target,
                  const Schedule* schedule) {
  return write(kernel, {symbol, {}}, target, schedule);
}

KernelSource emit(const KernelLaunch& launch, const std::string& symbol, const DeviceTarget& target,
                  const Schedule* schedule) {
  EntryPoint entry{symbol, {}};
  for (std::size_t member = 0; launch.is_table() && member < launch.members(); ++member)
    entry.members.push_back(launch.member_name(member));
  return write(launch.kernel, entry, target, schedule);
}

std::string text_key(const KernelLaunch& launch) {
  return (launch.is_table() ? "table of " : "") + tile::structure(launch.kernel);
}

}  // namespace rewire::codegen::cuda
