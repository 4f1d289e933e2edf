// Conversions between dtypes.
#include "codegen/llvm/convert.h"

#include <llvm/IR/Intrinsics.h>

#include <limits>

namespace rewire::codegen::cpu {
namespace {

using ir::DType;
using llvm::Value;

bool is_f32_in_registers(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

Value* like(Value* x, llvm::Type* scalar, std::uint64_t value) {
  return llvm::ConstantInt::get(x->getType()->getWithNewType(scalar), value);
}

}  // namespace

llvm::Type* register_type(llvm::LLVMContext& context, DType dtype) {
  switch (dtype) {
    case DType::f64:
      return llvm::Type::getDoubleTy(context);
    case DType::f32:
    case DType::bf16:
    case DType::f16:
      return llvm::Type::getFloatTy(context);
    case DType::i64:
      return llvm::Type::getInt64Ty(context);
    case DType::i32:
      return llvm::Type::getInt32Ty(context);
    case DType::u8:
      return llvm::Type::getInt8Ty(context);
    case DType::i1:
      break;
  }
  return llvm::Type::getInt1Ty(context);
}

llvm::Type* memory_type(llvm::LLVMContext& context, DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return llvm::Type::getInt16Ty(context);
    case DType::f16:
      return llvm::Type::getHalfTy(context);
    case DType::i1:
      return llvm::Type::getInt8Ty(context);
    default:
      return register_type(context, dtype);
  }
}

Value* Convert::from_memory(Value* x, DType dtype) {
  llvm::Type* type = x->getType();
  if (dtype == DType::i1) return builder_.CreateICmpNE(x, llvm::Constant::getNullValue(type));
  if (dtype == DType::f16) return builder_.CreateFPExt(x, type->getWithNewType(builder_.getFloatTy()));
  if (dtype != DType::bf16) return x;
  Value* bits = builder_.CreateShl(builder_.CreateZExt(x, type->getWithNewType(builder_.getInt32Ty())), 16);
  return builder_.CreateBitCast(bits, type->getWithNewType(builder_.getFloatTy()));
}

Value* Convert::to_memory(Value* x, DType dtype) {
  llvm::Type* type = x->getType();
  if (dtype == DType::i1) return builder_.CreateZExt(x, type->getWithNewType(builder_.getInt8Ty()));
  if (dtype == DType::f16) return builder_.CreateFPTrunc(x, type->getWithNewType(builder_.getHalfTy()));
  if (dtype != DType::bf16) return x;
  return builder_.CreateTrunc(bf16_bits(x), type->getWithNewType(builder_.getInt16Ty()));
}

/// Returns the upper half of an f32's bits, rounded to nearest even: adds 0x7fff and the lowest kept bit. A
/// NaN stays a NaN.
Value* Convert::bf16_bits(Value* x) {
  llvm::Type* i32 = builder_.getInt32Ty();
  Value* bits = builder_.CreateBitCast(x, x->getType()->getWithNewType(i32));
  Value* high = builder_.CreateLShr(bits, 16);
  Value* odd = builder_.CreateAnd(high, like(bits, i32, 1));
  Value* rounded = builder_.CreateAdd(builder_.CreateAdd(bits, like(bits, i32, 0x7fff)), odd);
  Value* nan = builder_.CreateOr(high, like(bits, i32, 0x40));
  return builder_.CreateSelect(builder_.CreateFCmpUNO(x, x), nan, builder_.CreateLShr(rounded, 16));
}

Value* Convert::round(Value* x, DType dtype) {
  if (dtype == DType::f16) {
    Value* half = builder_.CreateFPTrunc(x, x->getType()->getWithNewType(builder_.getHalfTy()));
    return builder_.CreateFPExt(half, x->getType());
  }
  if (dtype != DType::bf16) return x;
  return builder_.CreateBitCast(builder_.CreateShl(bf16_bits(x), 16), x->getType());
}

Value* Convert::float_to_integer(Value* x, DType to) {
  llvm::Type* type = x->getType()->getWithNewType(register_type(builder_.getContext(), to));
  return builder_.CreateIntrinsic(to == DType::u8 ? llvm::Intrinsic::fptoui_sat : llvm::Intrinsic::fptosi_sat,
                                  {type, x->getType()}, {x});
}

/// Clamps a signed integer to the range of a narrower integer.
Value* Convert::narrowed(Value* x, DType to) {
  const bool to_u8 = to == DType::u8;
  const std::int64_t least = to_u8 ? 0 : std::numeric_limits<std::int32_t>::min();
  const std::int64_t most = to_u8 ? 255 : std::numeric_limits<std::int32_t>::max();
  const auto bound = [&](std::int64_t value) {
    return llvm::ConstantInt::get(x->getType(), static_cast<std::uint64_t>(value), true);
  };
  Value* low = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, bound(least));
  Value* kept = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, low, bound(most));
  return builder_.CreateTrunc(kept, x->getType()->getWithNewType(register_type(builder_.getContext(), to)));
}

Value* Convert::cast(Value* x, DType from, DType to) {
  if (from == to) return x;
  llvm::Type* type = x->getType()->getWithNewType(register_type(builder_.getContext(), to));
  const bool from_float = ir::is_float(from);
  if (to == DType::i1) {
    Value* zero = llvm::Constant::getNullValue(x->getType());
    return from_float ? builder_.CreateFCmpUNE(x, zero) : builder_.CreateICmpNE(x, zero);
  }
  const bool is_unsigned = from == DType::u8 || from == DType::i1;
  if (!ir::is_float(to)) {
    if (from_float) return float_to_integer(x, to);
    if (is_unsigned) return builder_.CreateZExt(x, type);  // i1 and u8 fit all others
    return ir::dtype_bytes(to) < ir::dtype_bytes(from) ? narrowed(x, to) : builder_.CreateSExt(x, type);
  }
  if (!from_float) {
    x = is_unsigned ? builder_.CreateUIToFP(x, type) : builder_.CreateSIToFP(x, type);
  } else if (is_f32_in_registers(from) != is_f32_in_registers(to)) {
    x = to == DType::f64 ? builder_.CreateFPExt(x, type) : builder_.CreateFPTrunc(x, type);
  }
  return round(x, to);
}

}  // namespace rewire::codegen::cpu
