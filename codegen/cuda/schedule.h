// How one kernel is cut into threads, as data beside the tile program: all that a printer may choose where
// several cuts compute the same. The cost model names a few (emit.h: schedules), a clock may choose among
// them, and the answer is kept as one line of text. What lies between launches (the number of parts) is not
// here: that is the program's.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace rewire::codegen::cuda {

/// Threads of a block, and of all blocks of a multiprocessor: what every architecture allows.
inline constexpr int kMostThreads = 1024, kMostResident = 1536;

/// Of a row kernel (rows_plan.h).
struct RowsSchedule {
  int vector = 1;           // neighbours of a thread
  int threads = 1;          // of a group; a power of two up to 32, or the whole block
  int chunks = 1;           // of `threads x vector` lanes, in registers
  int groups = 32;          // of a block
  int repeats = 1;          // rows that a group walks, unless by partition
  int resident_blocks = 1;  // of a multiprocessor: what registers must suffice for

  int elements() const { return vector * chunks; }
  int block_threads() const { return threads * groups; }
  bool operator==(const RowsSchedule&) const = default;
};

/// Of a block kernel (blocks_plan.h).
struct BlockSchedule {
  int threads = 256;
  int resident_blocks = 1;
  std::vector<int> widths;  // of a warp's tile, in 8 columns: one for each step of products on tensor cores

  bool operator==(const BlockSchedule&) const = default;
};

/// Of a kernel that transposes (transposes_plan.h).
struct TransposeSchedule {
  int threads = 256;
  int resident_blocks = 1;
  std::vector<int> tile;  // of a block: points along each axis of the kernel

  bool operator==(const TransposeSchedule&) const = default;
};

using Schedule = std::variant<RowsSchedule, BlockSchedule, TransposeSchedule>;

/// "rows: vector 4, threads 32, chunks 2, groups 8, repeats 1, resident 4", "block: threads 160, resident 3,
/// widths 4 9", "transpose: threads 256, resident 4, tile 1 32 32".
std::string schedule_text(const Schedule& schedule);
/// nullopt: no text of schedule_text()'s, to the letter. Whether it fits a kernel is emit.h's to say.
std::optional<Schedule> parse_schedule(std::string_view text);

}  // namespace rewire::codegen::cuda
