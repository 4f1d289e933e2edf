// The innermost loop of every matrix product on a CPU. A block of the result stays in registers while k
// runs; each step loads one row of the right operand's vectors and multiplies it by one element of the left
// operand per row.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "codegen/llvm/vector_math.h"

namespace rewire::codegen::cpu {

struct RegisterBlock {
  int rows = 0, vectors = 0;              // of the result
  llvm::FixedVectorType* type = nullptr;  // a vector of f32
  std::vector<llvm::Value*> left;         // by row, a pointer to its element of k = 0
  llvm::Value* left_step = nullptr;       // elements (i64) from one k to the next
  llvm::Value* right = nullptr;           // a pointer to row 0
  llvm::Value* right_step = nullptr;
  llvm::Value* count = nullptr;  // steps (i64)
  /// Loads vector `v` of the row of right that begins at `row`.
  std::function<llvm::Value*(llvm::Value* row, int v)> load;
};

/// Returns the sums over k, each in k's order, row by row; they are complete at `builder`'s new position.
std::vector<llvm::Value*> multiply(llvm::IRBuilder<>& builder, VectorMath& math, const RegisterBlock& block);

/// The purpose of a prefetch: to write soon (first cache), or to read later (second cache).
enum class Fetch : std::uint8_t { to_write, to_read_later };
/// Prefetches the lines of `bytes` bytes from `begin` on, one per 64 bytes. The memory need not be the
/// program's.
void fetch(llvm::IRBuilder<>& builder, llvm::Value* begin, std::int64_t bytes, Fetch what);

}  // namespace rewire::codegen::cpu
