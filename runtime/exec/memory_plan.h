// One arena for the temporaries of a program: buffers that are never live together share memory. Lifetimes
// come from the launches alone (first to last that touches the buffer); placement is greedy by size, largest
// first, at the lowest offset that is free for the whole lifetime.
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
  int first = -1, last = -1;  // launches
};

struct MemoryPlan {
  std::vector<PlannedBuffer> buffers;  // by buffer index
  std::int64_t arena_bytes = 0;
  std::int64_t live_peak_bytes = 0;  // the largest sum of live bytes at one launch: the bound no plan beats
};

/// What a run that checks memory fills it with: before it is written, NaN in every float type; bytes behind
/// every buffer, kGap of them.
inline constexpr unsigned char kPoison = 0xFF, kGapByte = 0xA5;
inline constexpr std::int64_t kGap = 256;

enum class Decompositions : std::uint8_t { in_turn, together };

/// `gap` bytes are left unused behind every buffer, for the poisoning run that catches a write past the end.
/// Decompositions `together`: those that stand one behind the other, and do not read each other's results, count as one launch.
/// So threads can share them: else one may write where the last one read, and must wait for it. It takes the memory of all.
MemoryPlan plan_memory(const codegen::Program& program, std::int64_t gap = 0,
                       Decompositions decompositions = Decompositions::in_turn);

/// Of the gaps of such a plan those that are no buffer's memory at any time: what is written there, a
/// buffer's end was no end to.
struct MemoryGap {
  std::size_t buffer;   // behind which it lies
  std::int64_t offset;  // bytes into the arena
};
std::vector<MemoryGap> gaps_of(const MemoryPlan& plan, std::int64_t gap);
/// InternalError names the buffer behind which the arena's bytes are not those of an untouched gap.
void check_gaps(const codegen::Program& program, const MemoryPlan& plan, std::span<const std::byte> arena);

/// The buffers a launch reads and writes, as indices; a buffer written through a window counts as written.
struct BufferUse {
  std::vector<std::int32_t> reads, writes;
};
BufferUse buffers_of(const codegen::Launch& launch);

/// Readable text, one line a buffer in order of offset: `rewire dump --stage plan`.
std::string print(const codegen::Program& program, const MemoryPlan& plan);

}  // namespace rewire::runtime
