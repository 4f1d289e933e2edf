// How a kernel of several lane axes becomes threads: one block computes one instance, and walks its steps
// with all threads together, a barrier between them. What a later step reads of another thread's work lies in
// shared memory. This is the form of attention, and of reductions that keep lanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/cuda/emit.h"
#include "codegen/tile/tile.h"

namespace rewire::codegen::cuda {

enum class StepKind : std::uint8_t {
  scalars,  // by every thread
  loop,     // over the points of `lanes`
  reduce,   // over `reduced`, for each point of `lanes`
  dot,
  tensor_dot  // products of bf16, in tiles of 16 rows a warp, and what is done with their elements in
              // registers
};

struct BlockStep {
  StepKind kind{};
  std::vector<std::int32_t> lanes, reduced;
  std::vector<const tile::Node*> nodes;
  // tensor_dot: its two lanes, the columns / 8 of a warp's tile, and whether a tile has all columns, so that
  // sums over them are sums over a few threads. Products among its nodes that sum over the columns are
  // chained: their left operand is what the step computes, so it stays in registers, and a warp walks all
  // columns of its rows to add them up. It may hold those rows of the other products' left operands
  // meanwhile.
  std::int32_t row = -1, column = -1;
  std::int64_t width = 1;
  bool whole_rows = false, held_rows = false;
};

enum class BlockHome : std::uint8_t {
  immediate,  // a constant or an index: its text
  again,      // computed where it is read: loads, and short arithmetic on them
  scalar,     // a variable of every thread
  local,      // a variable of the loop that defines it
  shared      // an array in shared memory
};

struct SharedArray {
  ir::DType dtype = ir::DType::f32;
  bool narrow = false;  // stored as bf16, which its values are exactly: an operand of a tensor_dot
  std::vector<std::int32_t> lanes;
  std::int64_t pitch = 1;              // elements from row to row of the last lane axis
  std::int64_t offset = 0, bytes = 0;  // in the block's shared memory
};

struct BlockValue {
  BlockHome home = BlockHome::local;
  std::int32_t array = -1;
  const tile::Node* node = nullptr;  // nullptr: carried
};

struct BlockPlan {
  std::vector<BlockStep> prologue, body, epilogue;
  std::vector<BlockValue> values;
  std::vector<SharedArray> arrays;
  std::vector<std::int32_t> carried_arrays;  // one per kernel.carried; -1: a scalar
  std::int64_t shared_bytes = 0;
  int threads = 256;
  int resident_blocks = 1;  // of a multiprocessor: what registers must suffice for
  bool by_partition = false;

  const BlockValue& value(tile::TileValue of) const { return values[static_cast<std::size_t>(of.id)]; }
  /// Of a value whose home is shared memory.
  const SharedArray& array_of(tile::TileValue of) const {
    return arrays[static_cast<std::size_t>(value(of).array)];
  }
};

/// The first bytes of shared memory serve reductions over the block.
constexpr std::int64_t kBlockScratchBytes = 256;

/// How many parts of a size a count takes.
constexpr std::int64_t parts_of(std::int64_t count, std::int64_t size) {
  return (count + size - 1) / size;
}

/// By the cost model, or with this schedule. nullopt where the target has too little shared memory, or the
/// schedule is not for the kernel.
std::optional<BlockPlan> plan_block(const tile::Kernel& kernel, const DeviceTarget& target,
                                    const BlockSchedule* schedule = nullptr);
/// The cost model's, and after it those that may be faster, `most` in all; none where plan_block() has none.
std::vector<BlockSchedule> block_schedules(const tile::Kernel& kernel, const DeviceTarget& target,
                                           std::size_t most);

}  // namespace rewire::codegen::cuda
