// Where a block needs a barrier: before what meets the work of another thread in shared memory, or in a
// tensor that is read and written.
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
  /// Before what is not a step of its own: a barrier if anything has been read or written since the last.
  void before_all();
  /// A barrier before a step that reads or writes shared memory which another thread may have yet to write,
  /// or to read, since the last one.
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
  std::set<std::int32_t> touched_;    // arguments that were written, or may be
};

}  // namespace rewire::codegen::cuda
