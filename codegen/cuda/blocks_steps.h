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

/// The products of a step.
std::int64_t dots_of(const BlockStep& step);

}  // namespace rewire::codegen::cuda
