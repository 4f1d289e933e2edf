#include "ir/passes/fourier.h"

#include <cmath>
#include <numbers>
#include <numeric>

#include "ir/opcodes.h"
#include "ir/passes/rewrite.h"

namespace rewire::ir {
namespace {

bool stands_alone(std::int64_t bin, std::int64_t n) {
  return bin == 0 || 2 * bin == n;
}

/// Returns the matrix F of n points, or G if `inverse` (fourier.h).
Value matrix(Builder& b, std::int64_t n, bool inverse, DType dtype) {
  const std::int64_t bins = n / 2 + 1;
  const Shape shape = inverse ? Shape{2 * bins, n} : Shape{n, 2 * bins};
  Doubles values(static_cast<std::size_t>(element_count(shape)));
  const auto put = [&](std::int64_t bin, std::int64_t s, double value) {
    values[static_cast<std::size_t>(inverse ? bin * n + s : s * 2 * bins + bin)] = value;
  };
  for (std::int64_t k = 0; k < bins; ++k) {
    const bool alone = stands_alone(k, n);
    const double weight = inverse ? (alone ? 1.0 : 2.0) / static_cast<double>(n) : 1.0;
    for (std::int64_t s = 0; s < n; ++s) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(k * s % n) / static_cast<double>(n);
      put(k, s, weight * std::cos(angle));
      put(bins + k, s, alone ? 0.0 : -weight * std::sin(angle));
    }
  }
  return b.emit(Opcode::constant, {}, {{"values", values}}, TensorType{dtype, shape});
}

/// Returns x [..., inner] times the matrix `factor`, as [..., outer].
Value product(Builder& b, Value x, std::int64_t inner, Value factor, Shape result) {
  const Value rows = b.reshape(x, {b.type(x).elements() / inner, inner});
  return b.reshape(b.matmul(rows, factor), result);
}

/// Returns m [2, bins].
Value inverse_weights(Builder& b, std::int64_t n, DType dtype) {
  const std::int64_t bins = n / 2 + 1;
  Doubles values(static_cast<std::size_t>(2 * bins), 1.0 / static_cast<double>(n));
  for (std::int64_t k = 0; k < bins; ++k) {
    if (stands_alone(k, n)) values[static_cast<std::size_t>(bins + k)] = 0;
  }
  return b.emit(Opcode::constant, {}, {{"values", values}}, TensorType{dtype, {2, bins}});
}

/// Returns x with its last two axes swapped.
Value swapped(Builder& b, Value x) {
  Ints permutation(b.shape(x).size());
  std::iota(permutation.begin(), permutation.end(), 0);
  std::swap(permutation[permutation.size() - 2], permutation.back());
  return b.transpose(x, permutation);
}

class Transform {
 public:
  Transform(Builder& builder, const Op& op)
      : b_(builder),
        x_(op.operands[0]),
        result_(b_.shape(op.results[0])),
        rows_{.inverse = op.code == Opcode::irfft, .dtype = b_.type(x_).dtype} {
    rows_.length = rows_.inverse ? op.attributes.get_int("length") : b_.shape(x_).back();
    if (rows_.length > 0) rows_.rows = element_count(rows_.inverse ? result_ : b_.shape(x_)) / rows_.length;
  }

  const FourierRows& rows() const { return rows_; }

  Value as_product() {
    const std::int64_t n = rows_.length, bins = n / 2 + 1;
    return product(b_, x_, rows_.inverse ? 2 * bins : n, matrix(b_, n, rows_.inverse, rows_.dtype), result_);
  }

  Value as_pairs() {
    if (!rows_.inverse) return swapped(b_, b_.emit(Opcode::rfft_pairs, {x_}));
    const Value spectrum = b_.mul(x_, inverse_weights(b_, rows_.length, rows_.dtype));
    return b_.emit(Opcode::irfft_pairs, {swapped(b_, spectrum)}, {{"length", rows_.length}});
  }

 private:
  Builder& b_;
  Value x_;
  Shape result_;
  FourierRows rows_;
};

}  // namespace

void lower_fourier(Module& module, PassContext& context) {
  if (!context.fourier) return;
  for (Function& function : module.functions) {
    BodyRewriter rewriter(module, function);
    rewriter.run([&](const Op& op) -> std::optional<std::vector<Value>> {
      if (op.code != Opcode::rfft && op.code != Opcode::irfft) return std::nullopt;
      Transform transform(rewriter.builder(), op);
      if (transform.rows().length < 1 || transform.rows().rows == 0) return std::nullopt;
      switch (context.fourier(transform.rows())) {
        case FourierWay::op:
          return std::nullopt;
        case FourierWay::product:
          return std::vector<Value>{transform.as_product()};
        case FourierWay::pairs:
          return std::vector<Value>{transform.as_pairs()};
      }
      return std::nullopt;
    });
  }
}

}  // namespace rewire::ir
