// A level of a row kernel (rows_plan.h) as text: its scalars, the rows it loads, the loop over a thread's
// elements, the rows it stores.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "codegen/cuda/kernel_text.h"
#include "codegen/cuda/rows_plan.h"
#include "codegen/cuda/rows_values.h"

namespace rewire::codegen::cuda {

/// Which threads write: those for which a condition holds; an empty one holds for all.
struct RowGuard {
  std::string stores;
  std::string added;                             // to carried values
  std::vector<tile::TileValue> conditions = {};  // a row that meets none is done: tile/row_condition.h
};

/// Reductions of a block row that share two barriers: `shared` holds this many values of each warp.
inline constexpr std::size_t kMostTogether = 8;

/// The nodes of one level, in their order.
void write_level(const std::vector<const tile::Node*>& nodes, const RowGuard& guard, const RowsPlan& plan,
                 const KernelText& text, Lines& lines, RowValues& values);

}  // namespace rewire::codegen::cuda
