#include "ir/rounding_noise.h"

#include <algorithm>
#include <cmath>

#include "ir/opcodes.h"

namespace rewire::ir {
namespace {

/// SplitMix64 (Steele et al., OOPSLA 2014): cheap, and good enough to imitate rounding errors.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed) {}
  /// Uniform in [-1, 1).
  double next() {
    state_ += 0x9E3779B97F4A7C15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return static_cast<double>(static_cast<std::int64_t>(z ^ (z >> 31))) * 0x1p-63;
  }

 private:
  std::uint64_t state_;
};

/// Returns one unit in the last place at 1, or 0 if the dtype is not a float.
double unit(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x1p-52;
    case DType::f32:
      return 0x1p-23;
    case DType::f16:
      return 0x1p-10;
    case DType::bf16:
      return 0x1p-7;
    default:
      return 0;
  }
}

/// Returns the unit of the arithmetic: 16-bit operands are summed and multiplied in f32.
double unit_inside(DType dtype) {
  return std::min(unit(dtype), unit(DType::f32));
}

/// Copies the float operands and changes them by `change`. The other operands are passed on.
template <class Change>
class ChangedOperands {
 public:
  ChangedOperands(const EvalContext& context, Change change) : pointers(context.operands) {
    copies_.reserve(pointers.size());
    for (const Tensor*& operand : pointers) {
      if (!is_float(operand->type.dtype)) continue;
      copies_.push_back(*operand);
      for (double& x : copies_.back().data) x = change(x, operand->type.dtype);
      operand = &copies_.back();
    }
  }
  std::vector<const Tensor*> pointers;

 private:
  std::vector<Tensor> copies_;
};

}  // namespace

void evaluate_with_noise(EvalContext& context, std::uint64_t seed, std::size_t position) {
  const OpInfo& info = op_info(context.op.code);
  Draws draws(seed * 0xD1342543DE82EF95 + position * 0xAF251AF3B0F025B5);
  const bool narrows = context.op.code == Opcode::cast;
  const bool rounds = info.tolerance > 0 && info.op_class != OpClass::random;
  if (!rounds && !narrows) return info.evaluate(context);

  // The op is linear in each operand, and its coefficients are not negative. So, on the operands'
  // magnitudes, it gives the sum of the terms' magnitudes.
  if (info.arithmetic != Arithmetic::other) {
    info.evaluate(context);
    const ChangedOperands magnitudes(context, [](double x, DType) { return std::abs(x); });
    std::vector<Tensor> sums;
    for (const Tensor& result : context.results) sums.emplace_back(result.type);
    EvalContext of_magnitudes{context.op, magnitudes.pointers, sums, context.state};
    info.evaluate(of_magnitudes);
    for (std::size_t r = 0; r < sums.size(); ++r) {
      Tensor& result = context.results[r];
      const double u = unit_inside(result.type.dtype), stored = unit(result.type.dtype);
      for (std::size_t i = 0; i < result.data.size(); ++i) {
        result.data[i] += u * draws.next() * sums[r].data[i];
        if (stored > u) result.data[i] *= 1 + stored * draws.next();
      }
    }
    return;
  }
  if (info.op_class == OpClass::pointwise) {
    info.evaluate(context);
  } else {
    const ChangedOperands noisy(
        context, [&](double x, DType dtype) { return x * (1 + unit_inside(dtype) * draws.next()); });
    EvalContext of_noisy{context.op, noisy.pointers, context.results, context.state};
    info.evaluate(of_noisy);
  }
  for (Tensor& result : context.results) {
    const double u = unit(result.type.dtype);
    if (u == 0) continue;
    for (double& x : result.data) x *= 1 + u * draws.next();
  }
}

}  // namespace rewire::ir
