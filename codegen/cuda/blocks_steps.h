// The order of a block kernel's work: its nodes gathered into steps, each as early as what it reads allows,
// so that few barriers part them and what a thread does with its own elements stays in registers.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "codegen/cuda/blocks_plan.h"

namespace rewire::codegen::cuda {

struct BlockSteps {
  std::vector<BlockStep> steps;       // prologue, body, epilogue
  std::vector<int> known_at;          // by value: the step that computes it
  int body_begin = 0, body_end = -1;  // the first and the last step of the body
};

/// `values`: where each value is computed, at its reader or in a step. `staged`: operands of products, by id;
/// `narrow`: those of them that tensor cores multiply.
BlockSteps block_steps(const tile::Kernel& kernel, const std::vector<BlockValue>& values,
                       const std::set<std::int32_t>& staged, const std::set<std::int32_t>& narrow);

/// The products that have the rows and columns of a step on tensor cores.
std::vector<const tile::Dot*> dots_of(const BlockStep& step);
/// Those that are chained to it (BlockStep).
std::vector<const tile::Dot*> chained_of(const BlockStep& step);
/// The columns of a product on tensor cores: the lane of its right operand that it keeps.
std::int32_t column_of(const tile::Kernel& kernel, const tile::Dot& dot);
/// A thread's registers for the sums of a step's chained products, and for the rows of the left operands of
/// the others.
std::int64_t chained_registers(const tile::Kernel& kernel, const BlockStep& step);
std::int64_t row_registers(const tile::Kernel& kernel, const BlockStep& step);

}  // namespace rewire::codegen::cuda
