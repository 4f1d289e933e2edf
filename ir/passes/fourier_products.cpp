#include "ir/passes/fourier_products.h"

#include <cmath>
#include <numbers>

#include "ir/passes/rewrite.h"

namespace rewire::ir {
namespace {

constexpr std::int64_t kMaxLength = 1024;  // the constants have about n^2 values

/// The matrix F of n points, or G.
Value matrix(Builder& b, std::int64_t n, bool inverse, DType dtype) {
  const std::int64_t bins = n / 2 + 1;
  const Shape shape = inverse ? Shape{2 * bins, n} : Shape{n, 2 * bins};
  Doubles values(static_cast<std::size_t>(element_count(shape)));
  const auto put = [&](std::int64_t bin, std::int64_t s, double value) {
    values[static_cast<std::size_t>(inverse ? bin * n + s : s * 2 * bins + bin)] = value;
  };
  for (std::int64_t k = 0; k < bins; ++k) {
    const bool alone = k == 0 || 2 * k == n;
    const double weight = inverse ? (alone ? 1.0 : 2.0) / static_cast<double>(n) : 1.0;
    for (std::int64_t s = 0; s < n; ++s) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(k * s % n) / static_cast<double>(n);
      put(k, s, weight * std::cos(angle));
      put(bins + k, s, alone ? 0.0 : -weight * std::sin(angle));
    }
  }
  return b.emit(Opcode::constant, {}, {{"values", values}}, TensorType{dtype, shape});
}

/// x [..., inner] times a matrix, as [..., outer].
Value product(Builder& b, Value x, std::int64_t inner, Value factor, Shape result) {
  const Value rows = b.reshape(x, {b.type(x).elements() / inner, inner});
  return b.reshape(b.matmul(rows, factor), result);
}

}  // namespace

void fourier_products(Module& module, PassContext& context) {
  if (!context.fourier_products) return;
  for (Function& function : module.functions) {
    BodyRewriter rewriter(module, function);
    rewriter.run([&](const Op& op) -> std::optional<std::vector<Value>> {
      const bool inverse = op.code == Opcode::irfft;
      if (!inverse && op.code != Opcode::rfft) return std::nullopt;
      Builder& b = rewriter.builder();
      const Value x = op.operands[0];
      const TensorType type = b.type(x);
      Shape shape = type.shape;
      const std::int64_t n = inverse ? op.attributes.get_int("length") : shape.back();
      const std::int64_t bins = n / 2 + 1;
      if (n < 1 || n > kMaxLength || type.elements() == 0) return std::nullopt;
      const Value factor = matrix(b, n, inverse, type.dtype);
      if (inverse) {
        shape.pop_back();
        shape.back() = n;
        return std::vector<Value>{product(b, x, 2 * bins, factor, shape)};
      }
      shape.back() = 2;
      shape.push_back(bins);
      return std::vector<Value>{product(b, x, n, factor, shape)};
    });
  }
}

}  // namespace rewire::ir
