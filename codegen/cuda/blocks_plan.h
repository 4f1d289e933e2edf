// Maps a kernel of several lane axes to threads. One block computes one instance: all threads walk its steps
// together, with barriers between them. Data that a later step reads from other threads is in shared memory.
// Attention, and reductions that keep lanes, have this form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "codegen/cuda/emit.h"
#include "codegen/tile/tile.h"

namespace rewire::codegen::cuda {

enum class StepKind : std::uint8_t {
  scalars,  // computed by every thread
  loop,     // a loop over the points of `lanes`
  reduce,   // reduces over `reduced`, for each point of `lanes`
  dot,
  tensor_dot  // products of bf16, in tiles of 16 rows per warp, and the work on their elements in registers
};

struct BlockStep {
  StepKind kind{};
  std::vector<std::int32_t> lanes, reduced;
  bool adds = false;  // a reduce: it is a sum
  std::vector<const tile::Node*> nodes;
  // For tensor_dot: its two lanes, the columns / 8 of a warp's tile, and whether a tile has all columns, so
  // that sums over them are sums over a few threads. Products among the nodes that sum over the columns are
  // chained. Their left operand is what the step computes, so it stays in registers, and a warp walks all
  // columns of its rows to add them up. `held_rows`: it keeps those rows of the other products' left
  // operands meanwhile.
  std::int32_t row = -1, column = -1;
  std::int64_t width = 1;
  bool whole_rows = false, held_rows = false;
  // If not 0, this step and its neighbour walk an axis together, so many points at once (blocks_windows.h).
  std::int64_t window = 0;
};

enum class BlockHome : std::uint8_t {
  immediate,  // a constant or an index, written as text
  again,      // recomputed where it is read: loads, and short arithmetic on them
  scalar,     // a variable of every thread
  local,      // a variable of the loop that defines it
  shared      // an array in shared memory
};

struct SharedArray {
  ir::DType dtype = ir::DType::f32;
  bool narrow = false;  // stored as bf16 without loss: an operand of a tensor_dot
  std::vector<std::int32_t> lanes;
  std::int64_t pitch = 1;      // elements between rows of the last lane axis
  std::int64_t window = 0;     // points of the walked lane that it holds (blocks_windows.h); 0: all
  std::int64_t row_tiles = 0;  // of sums over the rows of products: so many rows of partial sums; 0: none
  std::int64_t offset = 0, bytes = 0;  // in the block's shared memory
};

struct BlockValue {
  BlockHome home = BlockHome::local;
  std::int32_t array = -1;
  const tile::Node* node = nullptr;  // nullptr: a carried value
};

struct BlockPlan {
  std::vector<BlockStep> prologue, body, epilogue;
  std::vector<BlockValue> values;
  std::vector<SharedArray> arrays;
  std::vector<std::int32_t> carried_arrays;  // one per kernel.carried; -1: a scalar
  std::int64_t shared_bytes = 0;
  int threads = 256;
  int resident_blocks = 1;  // per multiprocessor; registers must suffice for them
  bool by_partition = false;

  const BlockValue& value(tile::TileValue of) const { return values[static_cast<std::size_t>(of.id)]; }
  /// Returns the array of a value whose home is shared memory.
  const SharedArray& array_of(tile::TileValue of) const {
    return arrays[static_cast<std::size_t>(value(of).array)];
  }
  /// Returns whether a value is in shared memory a window at a time (blocks_windows.h), and whether it is a
  /// load of which the next window is there too.
  bool in_windows(tile::TileValue of) const {
    return value(of).home == BlockHome::shared && array_of(of).window > 0;
  }
  bool is_streamed(tile::TileValue of) const {
    return in_windows(of) && value(of).node != nullptr && std::holds_alternative<tile::Load>(*value(of).node);
  }
};

/// Bytes at the start of shared memory, used by reductions over the block.
constexpr std::int64_t kBlockScratchBytes = 256;

/// Returns how many parts of `size` hold `count` items.
constexpr std::int64_t parts_of(std::int64_t count, std::int64_t size) {
  return (count + size - 1) / size;
}

/// Plans by the cost model, or with the given schedule. Returns nullopt if the target has too little shared
/// memory, or the schedule does not fit the kernel.
std::optional<BlockPlan> plan_block(const tile::Kernel& kernel, const DeviceTarget& target,
                                    const BlockSchedule* schedule = nullptr);
/// Returns the cost model's schedule, then others that may be faster, `most` in all. Empty where
/// plan_block() returns nullopt.
std::vector<BlockSchedule> block_schedules(const tile::Kernel& kernel, const DeviceTarget& target,
                                           std::size_t most);

}  // namespace rewire::codegen::cuda
