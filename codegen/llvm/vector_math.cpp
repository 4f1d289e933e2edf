// The functions' range reductions and coefficients.
#include "codegen/llvm/vector_math.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include <limits>
#include <numbers>

namespace rewire::codegen::cpu {
namespace {

using llvm::Value;

// e^r = 1 + r + r^2 q(r) on |r| <= ln 2 / 2; relative errors 3e-9 and 4e-18.
constexpr double kExp32[] = {0.4999999403953552, 0.1666651964187622, 0.04166839271783829,
                             0.008368780836462975, 0.001381446374580264};
constexpr double kExp64[] = {0.5000000000000011,     0.1666666666666641,     0.04166666666652919,
                             0.008333333333495627,   0.0013888888943922354,  0.0001984126950475702,
                             2.4801492763043503e-05, 2.7557587351527635e-06, 2.763037854765961e-07,
                             2.499996193486001e-08};
// log(1 + t) = t - t^2 / 2 + t^3 q(t) on sqrt(1/2) <= 1 + t <= sqrt(2); relative error 6e-9.
constexpr double kLog32[] = {0.3333333134651184,   -0.2500081956386566, 0.20001226663589478,
                             -0.16623356938362122, 0.14201758801937103, -0.13160182535648346,
                             0.12761574983596802,  -0.07634495198726654};
// log((1 + s) / (1 - s)) = 2 s + s^3 q(s^2) on the same range; relative error 1e-18.
constexpr double kLog64[] = {0.6666666666666734,  0.3999999999941468,  0.28571428742387023,
                             0.22222198573260976, 0.18183564321552453, 0.1531405068080525,
                             0.1479594831948716};
// sin r = r + r^3 s(r^2), cos r = 1 - r^2 / 2 + r^4 c(r^2) on |r| <= pi / 4; errors 4e-9, 1e-10 and 3e-18,
// 5e-20.
constexpr double kSin32[] = {-0.16666655242443085, 0.008332173340022564, -0.00019516656175255775};
constexpr double kCos32[] = {0.04166664555668831, -0.001388736185617745, 2.4437729734927416e-05};
constexpr double kSin64[] = {-0.16666666666666632,  0.008333333333322316,    -0.00019841269829725194,
                             2.755731366205436e-06, -2.5050753264091272e-08, 1.5896504923532986e-10};
constexpr double kCos64[] = {0.0416666666666666,      -0.001388888888887399, 2.4801587289394937e-05,
                             -2.7557314326033483e-07, 2.087571955906848e-09, -1.1359448698628247e-11};
// erf x = x p(x^2) / q(x^2) on |x| <= 3.925, beyond which it rounds to 1; relative error 2e-8, in f32
// arithmetic 3e-7.
constexpr double kErfLimit = 3.925;
constexpr double kErfP[] = {1.1283791065216064,   0.190597265958786,     0.05276969075202942,
                            0.003772682510316372, 0.0002848432632163167, 2.045956080110045e-06};
constexpr double kErfQ[] = {1.0,
                            0.5022451281547546,
                            0.11418410390615463,
                            0.014983463101089,
                            0.0011638839496299624,
                            3.804702646448277e-05};
// tanh x likewise on |x| <= 9.02. Further out the quotient rises above 1; at kTanhLimit, by more than its
// rounding error. So the clamped result is exactly 1 from there on, and 1 + tanh x is exactly 0 for a GELU
// far below zero, as it must be.
constexpr double kTanhLimit = 10;
constexpr double kTanhP[] = {1.0, 0.13379716873168945, 0.0034940335899591446, 2.0583465811796486e-05,
                             1.3319053415727922e-08};
constexpr double kTanhQ[] = {1.0, 0.4671303331851959, 0.025871070101857185, 0.0003283091355115175,
                             7.76201147800748e-07};

// ln 2 and pi / 2 in two parts; the first has so few bits that its product with a small integer is exact.
constexpr double kLn2High32 = 0.693115234375, kLn2Low32 = 3.194618329871446e-05;
constexpr double kLn2High64 = 0x1.62e42fee00000p-1, kLn2Low64 = 0x1.a39ef35793c76p-33;
constexpr double kHalfPiHigh = 0x1.921fb54400000p+0, kHalfPiLow = 0x1.0b4611a626331p-34;

bool is_double(Value* x) {
  return x->getType()->getScalarType()->isDoubleTy();
}

}  // namespace

Value* VectorMath::constant(Value* like, double value) const {
  return llvm::ConstantFP::get(like->getType(), value);
}

Value* VectorMath::integer(Value* like, std::int64_t value) const {
  llvm::Type* scalar = llvm::IntegerType::get(builder_.getContext(), like->getType()->getScalarSizeInBits());
  llvm::Type* type = like->getType()->isVectorTy()
                         ? llvm::VectorType::get(scalar, llvm::cast<llvm::VectorType>(like->getType()))
                         : scalar;
  return llvm::ConstantInt::get(type, static_cast<std::uint64_t>(value), true);
}

Value* VectorMath::fma(Value* a, Value* b, Value* c) {
  if (!target_.fma) return builder_.CreateFAdd(builder_.CreateFMul(a, b), c);
  return builder_.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
}

Value* VectorMath::polynomial(Value* x, std::span<const double> coefficients) {
  Value* sum = constant(x, coefficients.back());
  for (std::size_t i = coefficients.size() - 1; i-- > 0;) sum = fma(sum, x, constant(x, coefficients[i]));
  return sum;
}

/// Clamps x. Comparisons with NaN are false, so a NaN passes through.
Value* VectorMath::clamp(Value* x, double low, double high) {
  Value* lower = constant(x, low);
  x = builder_.CreateSelect(builder_.CreateFCmpOLT(x, lower), lower, x);
  Value* upper = constant(x, high);
  return builder_.CreateSelect(builder_.CreateFCmpOGT(x, upper), upper, x);
}

/// Returns x 2^n. It multiplies in two steps, so that results beyond the range become infinite and those
/// below it denormal or zero. `rounded` is n; `shifted` is n + 1.5 x 2^mantissa bits, whose low bits are the
/// integer n.
Value* VectorMath::scale_by_power_of_two(Value* x, Value* rounded, Value* shifted) {
  if (target_.avx512 && x->getType() == llvm::FixedVectorType::get(builder_.getFloatTy(), 16)) {
    return builder_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {},
                                    {x, rounded, x, builder_.getInt16(0xffff), builder_.getInt32(4)});
  }
  const bool wide = is_double(x);
  const int mantissa = wide ? 52 : 23;
  Value* bias = integer(x, wide ? 1023 : 127);
  Value* offset = integer(x, wide ? 0x4338000000000000 : 0x4B400000);
  Value* n = builder_.CreateSub(builder_.CreateBitCast(shifted, bias->getType()), offset);
  Value* half = builder_.CreateAShr(n, integer(x, 1));
  for (Value* part : {half, builder_.CreateSub(n, half)}) {
    Value* power = builder_.CreateShl(builder_.CreateAdd(part, bias), integer(x, mantissa));
    x = builder_.CreateFMul(x, builder_.CreateBitCast(power, x->getType()));
  }
  return x;
}

/// x = n ln 2 + r, e^x = 2^n e^r.
Value* VectorMath::exp(Value* x) {
  const bool wide = is_double(x);
  x = wide ? clamp(x, -750, 710) : clamp(x, -105, 89);
  Value* magic = constant(x, wide ? 0x1.8p52 : 0x1.8p23);
  Value* shifted = fma(x, constant(x, std::numbers::log2e), magic);
  Value* n = builder_.CreateFSub(shifted, magic);
  Value* minus = builder_.CreateFNeg(n);
  Value* r = fma(minus, constant(x, wide ? kLn2High64 : kLn2High32), x);
  r = fma(minus, constant(x, wide ? kLn2Low64 : kLn2Low32), r);
  Value* q = wide ? polynomial(r, kExp64) : polynomial(r, kExp32);
  Value* power = builder_.CreateFAdd(fma(builder_.CreateFMul(r, r), q, r), constant(x, 1));
  return scale_by_power_of_two(power, n, shifted);
}

/// x = 2^e m with sqrt(1/2) <= m < sqrt(2), log x = e ln 2 + log m.
Value* VectorMath::log(Value* x) {
  const bool wide = is_double(x);
  const int mantissa = wide ? 52 : 23;
  Value* smallest = constant(x, wide ? 0x1p-1022 : 0x1p-126);
  Value* denormal = builder_.CreateFCmpOLT(x, smallest);
  Value* scaled = builder_.CreateFMul(x, constant(x, wide ? 0x1p54 : 0x1p25));
  Value* normal = builder_.CreateSelect(denormal, scaled, x);
  Value* root_half = integer(x, wide ? 0x3FE6A09E667F3BCD : 0x3F3504F3);
  Value* bits = builder_.CreateBitCast(normal, root_half->getType());
  Value* e = builder_.CreateAShr(builder_.CreateSub(bits, root_half), integer(x, mantissa));
  Value* m = builder_.CreateBitCast(builder_.CreateSub(bits, builder_.CreateShl(e, integer(x, mantissa))),
                                    x->getType());
  e = builder_.CreateSub(e, builder_.CreateSelect(denormal, integer(x, wide ? 54 : 25), integer(x, 0)));
  e = builder_.CreateSIToFP(e, x->getType());
  Value* t = builder_.CreateFSub(m, constant(x, 1));
  Value* result = nullptr;
  if (wide) {
    Value* s = builder_.CreateFDiv(t, builder_.CreateFAdd(t, constant(x, 2)));
    Value* z = builder_.CreateFMul(s, s);
    Value* tail = builder_.CreateFMul(builder_.CreateFMul(s, z), polynomial(z, kLog64));
    tail = fma(e, constant(x, kLn2Low64), tail);
    result = fma(e, constant(x, kLn2High64), fma(s, constant(x, 2), tail));
  } else {
    Value* square = builder_.CreateFMul(t, t);
    Value* tail = builder_.CreateFMul(builder_.CreateFMul(t, square), polynomial(t, kLog32));
    tail = fma(e, constant(x, kLn2Low32), tail);
    tail = fma(square, constant(x, -0.5), tail);
    result = fma(e, constant(x, kLn2High32), builder_.CreateFAdd(t, tail));
  }
  const double infinity = std::numeric_limits<double>::infinity();
  result = builder_.CreateSelect(builder_.CreateFCmpOEQ(x, constant(x, 0)), constant(x, -infinity), result);
  Value* valid = builder_.CreateFCmpOLT(x, constant(x, infinity));  // false for infinity and NaN
  result = builder_.CreateSelect(valid, result, x);
  Value* negative = builder_.CreateFCmpOLT(x, constant(x, 0));
  return builder_.CreateSelect(negative, constant(x, std::numeric_limits<double>::quiet_NaN()), result);
}

/// x = n pi/2 + r. The reduction of f32 runs in f64, where it is exact to f32 for |x| < 2^50. Beyond that, r
/// is only kept in range.
Value* VectorMath::sine(Value* x, int quadrant) {
  const bool wide = is_double(x);
  llvm::Type* type = x->getType();
  if (!wide) x = builder_.CreateFPExt(x, type->getWithNewType(builder_.getDoubleTy()));
  Value* magic = constant(x, 0x1.8p52);
  Value* shifted = builder_.CreateFAdd(builder_.CreateFMul(x, constant(x, 2 / std::numbers::pi)), magic);
  Value* minus = builder_.CreateFNeg(builder_.CreateFSub(shifted, magic));
  Value* r = fma(minus, constant(x, kHalfPiLow), fma(minus, constant(x, kHalfPiHigh), x));
  r = clamp(r, -0.786, 0.786);
  Value* q =
      builder_.CreateAdd(builder_.CreateBitCast(shifted, integer(x, 0)->getType()), integer(x, quadrant));
  Value* odd = builder_.CreateICmpNE(builder_.CreateAnd(q, integer(x, 1)), integer(x, 0));
  Value* negative = builder_.CreateICmpNE(builder_.CreateAnd(q, integer(x, 2)), integer(x, 0));
  if (!wide) r = builder_.CreateFPTrunc(r, type);
  Value* square = builder_.CreateFMul(r, r);
  Value* s = wide ? polynomial(square, kSin64) : polynomial(square, kSin32);
  s = fma(builder_.CreateFMul(r, square), s, r);
  Value* c = wide ? polynomial(square, kCos64) : polynomial(square, kCos32);
  c = fma(builder_.CreateFMul(square, square), c, fma(square, constant(square, -0.5), constant(square, 1)));
  Value* result = builder_.CreateSelect(odd, c, s);
  return builder_.CreateSelect(negative, builder_.CreateFNeg(result), result);
}

Value* VectorMath::odd_rational(Value* x, double limit, std::span<const double> p,
                                std::span<const double> q) {
  x = clamp(x, -limit, limit);
  Value* square = builder_.CreateFMul(x, x);
  Value* numerator = builder_.CreateFMul(x, polynomial(square, p));
  return clamp(builder_.CreateFDiv(numerator, polynomial(square, q)), -1, 1);
}

Value* VectorMath::tanh(Value* x) {
  return is_double(x) ? call_each("tanh", x) : odd_rational(x, kTanhLimit, kTanhP, kTanhQ);
}

Value* VectorMath::erf(Value* x) {
  return is_double(x) ? call_each("erf", x) : odd_rational(x, kErfLimit, kErfP, kErfQ);
}

/// Calls the C library's function for every lane, since f64 computing is rare.
Value* VectorMath::call_each(const char* function, Value* x) {
  llvm::Module* module = builder_.GetInsertBlock()->getModule();
  llvm::FunctionCallee callee =
      module->getOrInsertFunction(function, builder_.getDoubleTy(), builder_.getDoubleTy());
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (vector == nullptr) return builder_.CreateCall(callee, {x});
  Value* result = llvm::PoisonValue::get(vector);
  for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
    Value* y = builder_.CreateCall(callee, {builder_.CreateExtractElement(x, lane)});
    result = builder_.CreateInsertElement(result, y, lane);
  }
  return result;
}

Value* VectorMath::sigmoid(Value* x) {
  Value* one = constant(x, 1);
  return builder_.CreateFDiv(one, builder_.CreateFAdd(one, exp(builder_.CreateFNeg(x))));
}

Value* VectorMath::sqrt(Value* x) {
  return builder_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x);
}

Value* VectorMath::rsqrt(Value* x) {
  return builder_.CreateFDiv(constant(x, 1), sqrt(x));
}

/// Returns e^(b log |a|), computed in f64. It sets the sign of a whole power, and the limits for which this
/// form gives NaN.
Value* VectorMath::pow(Value* base, Value* exponent) {
  llvm::Type* type = base->getType();
  if (!is_double(base)) {
    llvm::Type* wide = type->getWithNewType(builder_.getDoubleTy());
    base = builder_.CreateFPExt(base, wide);
    exponent = builder_.CreateFPExt(exponent, wide);
  }
  Value* one = constant(base, 1);
  Value* magnitude = builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, base);
  Value* result = exp(builder_.CreateFMul(exponent, log(magnitude)));
  Value* trivial = builder_.CreateOr(builder_.CreateFCmpOEQ(exponent, constant(base, 0)),
                                     builder_.CreateFCmpOEQ(base, one));
  result = builder_.CreateSelect(trivial, one, result);
  Value* half = builder_.CreateFMul(exponent, constant(base, 0.5));
  Value* whole =
      builder_.CreateFCmpOEQ(builder_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, exponent), exponent);
  Value* even = builder_.CreateFCmpOEQ(builder_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, half), half);
  Value* negative = builder_.CreateSelect(even, result, builder_.CreateFNeg(result));
  negative = builder_.CreateSelect(whole, negative, constant(base, std::numeric_limits<double>::quiet_NaN()));
  result = builder_.CreateSelect(builder_.CreateFCmpOLT(base, constant(base, 0)), negative, result);
  return type == base->getType() ? result : builder_.CreateFPTrunc(result, type);
}

Value* VectorMath::maximum(Value* a, Value* b) {
  Value* larger = builder_.CreateSelect(builder_.CreateFCmpOGT(a, b), a, b);
  return builder_.CreateSelect(builder_.CreateFCmpUNO(a, a), a, larger);
}

Value* VectorMath::minimum(Value* a, Value* b) {
  Value* smaller = builder_.CreateSelect(builder_.CreateFCmpOLT(a, b), a, b);
  return builder_.CreateSelect(builder_.CreateFCmpUNO(a, a), a, smaller);
}

Value* VectorMath::is_finite(Value* x) {
  Value* magnitude = builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
  return builder_.CreateFCmpOLT(magnitude, constant(x, std::numeric_limits<double>::infinity()));
}

}  // namespace rewire::codegen::cpu
