// One arena for the temporaries of a program: buffers that are never live together share memory. A buffer
// lives from the first to the last launch that touches it. Placement is greedy by size, largest first, at
// the lowest offset that is free for the whole lifetime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codegen/program.h"

namespace rewire::runtime {

struct PlannedBuffer {
  std::int64_t offset = -1;  // bytes into the arena, 64-byte aligned; -1: not a temporary, or never touched
  std::int64_t bytes = 0;
  int first = -1, last = -1;  // indices of launches
};

struct MemoryPlan {
  std::vector<PlannedBuffer> buffers;  // by buffer index
  std::int64_t arena_bytes = 0;
  std::int64_t live_peak_bytes = 0;  // largest sum of live bytes at one launch, a lower bound for any plan
};

/// The bytes of a run that checks memory. kPoison fills memory before it is written: NaN in every float
/// type. kGapByte fills kGap bytes after every buffer.
inline constexpr unsigned char kPoison = 0xFF, kGapByte = 0xA5;
inline constexpr std::int64_t kGap = 256;

enum class Decompositions : std::uint8_t { in_turn, together };

/// Plans the arena. `gap` bytes after every buffer are unused, for the run that catches a write past the
/// end. Decompositions `together`: successive ones that do not read each other's results count as one
/// launch, so that threads can share them; that takes the memory of all. In turn, one may write where the
/// last one read, and must wait for it.
MemoryPlan plan_memory(const codegen::Program& program, std::int64_t gap = 0,
                       Decompositions decompositions = Decompositions::in_turn);

/// A gap of a plan that no buffer uses at any time: a write there went past a buffer's end.
struct MemoryGap {
  std::size_t buffer;   // the buffer before it
  std::int64_t offset;  // bytes into the arena
};
std::vector<MemoryGap> gaps_of(const MemoryPlan& plan, std::int64_t gap);
/// Throws InternalError naming the buffer if the gap after it in the arena was written.
void check_gaps(const codegen::Program& program, const MemoryPlan& plan, std::span<const std::byte> arena);

/// The buffers that a launch reads and writes, as indices; a buffer written through a window counts as
/// written.
struct BufferUse {
  std::vector<std::int32_t> reads, writes;
};
BufferUse buffers_of(const codegen::Launch& launch);

/// Prints a line per buffer, in order of offset: `rewire dump --stage plan`.
std::string print(const codegen::Program& program, const MemoryPlan& plan);

}  // namespace rewire::runtime
