// Places the barriers of a block kernel: before each access that meets another thread's work in shared
// memory, or in a tensor that is both read and written.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "codegen/cuda/blocks_plan.h"
#include "codegen/cuda/kernel_text.h"

namespace rewire::codegen::cuda {

class BlockOrder {
 public:
  BlockOrder(const tile::Kernel& kernel, const BlockPlan& plan, Lines& lines)
      : kernel_(kernel), plan_(plan), lines_(lines) {}

  void barrier();
  /// Notes that copies into shared memory are in flight (write_copies). They are finished before the next
  /// barrier, and no step reads them before that.
  void start_copies() { copying_ = true; }
  /// Writes the wait for copies in flight.
  void finish_copies();
  /// Writes a barrier if anything was read or written since the last one.
  void before_all();
  /// Writes a barrier before a step that reads what was written since the last barrier, or writes what was
  /// read or written since then, in shared memory or in an argument that the kernel may write.
  void before(const BlockStep& step);

 private:
  struct Span {
    std::int64_t begin = 0, end = 0;  // bytes of shared memory
  };
  Span span(tile::TileValue value) const;
  void add_reads(tile::TileValue operand, std::vector<Span>& reads) const;

  const tile::Kernel& kernel_;
  const BlockPlan& plan_;
  Lines& lines_;
  std::vector<Span> read_, written_;  // since the last barrier
  std::set<std::int32_t> touched_;    // arguments accessed that the kernel may write
  bool copying_ = false;
};

}  // namespace rewire::codegen::cuda
