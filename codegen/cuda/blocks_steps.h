// Orders the work of a block kernel: gathers its nodes into steps, each as early as its operands allow. So
// there are few barriers, and a thread's own elements stay in registers.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "codegen/cuda/blocks_plan.h"

namespace rewire::codegen::cuda {

/// Registers per thread for the elements of a step's products and the sums of those chained to them.
inline constexpr std::int64_t kChainRegisters = 112;
/// The most columns of which two chained products have their sums in registers, beside the elements of 16
/// columns of two products.
inline constexpr std::int64_t kChainedColumns = (kChainRegisters - 2 * 8) / (2 * 4) * 8;

struct BlockSteps {
  std::vector<BlockStep> steps;       // prologue, body, epilogue
  std::vector<int> known_at;          // by value: the step that computes it
  int body_begin = 0, body_end = -1;  // the first and the last step of the body
};

/// Gathers the nodes of a kernel. `values`: where each is computed, at its reader or in a step. `staged`:
/// ids of the operands of products; `narrow`: the staged operands that tensor cores multiply.
BlockSteps block_steps(const tile::Kernel& kernel, const std::vector<BlockValue>& values,
                       const std::set<std::int32_t>& staged, const std::set<std::int32_t>& narrow);

/// Returns the products of a step on tensor cores that have its rows and columns.
std::vector<const tile::Dot*> dots_of(const BlockStep& step);
/// Returns the products that are chained to the step (BlockStep).
std::vector<const tile::Dot*> chained_of(const BlockStep& step);
/// Returns whether a node of a step on tensor cores adds up the rows of its products. Each tile leaves the sums
/// of its own rows, which the readers add up.
bool adds_rows(const BlockStep& step, const tile::Node& node);
/// Returns the columns of a product on tensor cores: the lane that its right operand keeps.
std::int32_t column_of(const tile::Kernel& kernel, const tile::Dot& dot);

/// A step of products on tensor cores (BlockStep). A tile has 16 rows, and columns in eights.
struct ProductFacts {
  std::int64_t row_tiles = 1;         // of 16 rows
  std::int64_t column_tiles = 1;      // of 8 columns
  std::vector<std::int64_t> inner;    // of each product: the summed points, in sixteens
  std::vector<std::int64_t> chained;  // of each chained product: its columns, in eights
  bool whole_rows = false;            // a tile has all columns
  bool stores_columns = false;        // stores to device memory along the columns
  // In windows (blocks_windows.h): their length, and for the second step their number, its row_tiles being
  // those of a window, and the registers in which the first step's sums wait.
  std::int64_t window = 0, windows = 1, waiting_registers = 0;

  /// Return whether it is the first or the second of two steps in windows.
  bool is_first() const { return window > 0 && !chained.empty(); }
  bool is_second() const { return window > 0 && chained.empty(); }
  /// Registers per thread for the sums of the chained products, and for the rows of the other products' left
  /// operands.
  std::int64_t chained_registers() const;
  std::int64_t row_registers() const;
};
ProductFacts product_facts(const tile::Kernel& kernel, const BlockStep& step);

}  // namespace rewire::codegen::cuda
