// Converts values between memory, registers and dtypes. In registers f32, bf16 and f16 are f32 (the narrow
// ones rounded after every op), f64, i64, i32 are themselves, u8 is i8, i1 is i1. In memory i1 takes a byte,
// bf16 is an i16.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "ir/types.h"

namespace rewire::codegen::cpu {

llvm::Type* register_type(llvm::LLVMContext& context, ir::DType dtype);
llvm::Type* memory_type(llvm::LLVMContext& context, ir::DType dtype);

class Convert {
 public:
  explicit Convert(llvm::IRBuilder<>& builder) : builder_(builder) {}

  llvm::Value* from_memory(llvm::Value* x, ir::DType dtype);
  llvm::Value* to_memory(llvm::Value* x, ir::DType dtype);
  /// Casts to an integer toward zero, within its range, NaN to 0; anything to i1 is x != 0.
  llvm::Value* cast(llvm::Value* x, ir::DType from, ir::DType to);
  /// Rounds an f32 that holds a bf16 or f16 to nearest even; other dtypes stay as they are.
  llvm::Value* round(llvm::Value* x, ir::DType dtype);

 private:
  llvm::Value* bf16_bits(llvm::Value* x);
  llvm::Value* float_to_integer(llvm::Value* x, ir::DType to);
  llvm::Value* narrowed(llvm::Value* x, ir::DType to);

  llvm::IRBuilder<>& builder_;
};

}  // namespace rewire::codegen::cpu
