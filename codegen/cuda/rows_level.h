// Writes a level of a row kernel (rows_plan.h): its scalars, the rows it loads, the loop over a thread's
// elements, the rows it stores.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "codegen/cuda/kernel_text.h"
#include "codegen/cuda/rows_plan.h"
#include "codegen/cuda/rows_values.h"

namespace rewire::codegen::cuda {

/// The conditions under which threads write; an empty one always holds.
struct RowGuard {
  std::string stores;
  std::string added;                             // additions to carried values
  std::vector<tile::TileValue> conditions = {};  // a row that meets none is skipped: tile/row_condition.h
};

/// The most reductions of a block row that share two barriers: `shared` holds this many values per warp.
inline constexpr std::size_t kMostTogether = 8;

/// Writes the nodes of one level, in their order.
void write_level(const std::vector<const tile::Node*>& nodes, const RowGuard& guard, const RowsPlan& plan,
                 const KernelText& text, Lines& lines, RowValues& values);

}  // namespace rewire::codegen::cuda
