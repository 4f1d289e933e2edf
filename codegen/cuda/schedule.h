// The schedule of a kernel: its cut into threads, as data beside the tile kernel. It has all that a printer
// may choose where several cuts compute the same. The cost model names a few schedules (emit.h: schedules),
// measured times may choose among them, and the choice is kept as one line of text. Choices that concern
// several launches (the number of parts) belong to the program.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace rewire::codegen::cuda {

/// The most threads of a block, and of all blocks of a multiprocessor, that every architecture allows.
inline constexpr int kMostThreads = 1024, kMostResident = 1536;

/// The schedule of a row kernel (rows_plan.h).
struct RowsSchedule {
  int vector = 1;           // neighbours per thread
  int threads = 1;          // per group; a power of two up to 32, or the whole block
  int chunks = 1;           // of `threads x vector` lanes, in registers
  int groups = 32;          // per block
  int repeats = 1;          // rows that a group walks, unless by partition
  int resident_blocks = 1;  // per multiprocessor; registers must suffice for them

  int elements() const { return vector * chunks; }
  int block_threads() const { return threads * groups; }
  bool operator==(const RowsSchedule&) const = default;
};

/// The schedule of a block kernel (blocks_plan.h), or of one that walks tiles (walks_plan.h), which has no widths.
struct BlockSchedule {
  int threads = 256;
  int resident_blocks = 1;
  std::vector<int> widths;  // of a warp's tile, in 8 columns: one per step of products on tensor cores

  bool operator==(const BlockSchedule&) const = default;
};

/// The schedule of a kernel that transposes (transposes_plan.h).
struct TransposeSchedule {
  int threads = 256;
  int resident_blocks = 1;
  std::vector<int> tile;  // points of a block along each axis of the kernel

  bool operator==(const TransposeSchedule&) const = default;
};

using Schedule = std::variant<RowsSchedule, BlockSchedule, TransposeSchedule>;

/// Returns "rows: vector 4, threads 32, chunks 2, groups 8, repeats 1, resident 4", "block: threads 160,
/// resident 3, widths 4 9", "transpose: threads 256, resident 4, tile 1 32 32".
std::string schedule_text(const Schedule& schedule);
/// Reads exactly the texts of schedule_text(); nullopt for any other. emit.h decides if it fits a kernel.
std::optional<Schedule> parse_schedule(std::string_view text);

}  // namespace rewire::codegen::cuda
