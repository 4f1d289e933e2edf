// The innermost loop of every matrix product on a CPU: a block of the result stays in registers while k runs. Each step loads
// one row of the right operand's vectors and multiplies it by one element of the left operand per row.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "codegen/llvm/vector_math.h"

namespace rewire::codegen::cpu {

struct RegisterBlock {
  int rows = 0, vectors = 0;              // of the result
  llvm::FixedVectorType* type = nullptr;  // of a vector of f32
  std::vector<llvm::Value*> left;         // of each row, a pointer to its element of k = 0
  llvm::Value* left_step = nullptr;       // elements (i64) from one k to the next
  llvm::Value* right = nullptr;           // a pointer to row 0
  llvm::Value* right_step = nullptr;
  llvm::Value* count = nullptr;  // of steps (i64)
  /// Vector `v` of the row of right that begins at `row`.
  std::function<llvm::Value*(llvm::Value* row, int v)> load;
};

/// The sums over k, each in k's order, row by row. They are complete where `builder` stands then.
std::vector<llvm::Value*> multiply(llvm::IRBuilder<>& builder, VectorMath& math, const RegisterBlock& block);

/// What memory lines are asked for: to be written soon, in the first cache, or to be read, in the second.
enum class Fetch : std::uint8_t { to_write, to_read_later };
/// Asks for the line of `begin`, and of each 64 bytes on, of `bytes` bytes. It need not be memory of the program's.
void fetch(llvm::IRBuilder<>& builder, llvm::Value* begin, std::int64_t bytes, Fetch what);

}  // namespace rewire::codegen::cpu
