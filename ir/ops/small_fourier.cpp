// Radix-2 transforms by recursion. E and O are the bins of the even and the odd parts, and h = R / 2:
//   X[k] = E[k] + w^k O[k],   E[h - k] = conj E[k], and the same for O
// The inverse gives R times the parts: E[k] = X[k] + conj X[h - k], O[k] = w^-k (X[k] - conj X[h - k]).
#include "ir/ops/small_fourier.h"

#include <cmath>
#include <numbers>

namespace rewire::ir {
namespace {

/// Returns a x + b y. An invalid operand, or one with a factor of zero, adds nothing.
Value combine(Builder& builder, double a, Value x, double b, Value y) {
  const auto scaled = [&](double factor, Value value) {
    return factor == 1 ? value : builder.mul(value, factor);
  };
  const bool has_x = x && a != 0, has_y = y && b != 0;
  if (!has_x) return has_y ? scaled(b, y) : Value{};
  if (!has_y) return scaled(a, x);
  const Value left = scaled(a, x);
  return b < 0 ? builder.sub(left, scaled(-b, y)) : builder.add(left, scaled(b, y));
}

ComplexValue conjugate(Builder& b, const ComplexValue& x) {
  return {x.re, combine(b, -1, x.im, 0, {})};
}

/// cos and sin of 2 pi k / points, for at most half a turn. The cosine of a quarter turn is exactly 0.
struct Turn {
  double cosine, sine;
  Turn(std::size_t k, std::size_t points) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(points);
    cosine = 4 * k == points ? 0 : std::cos(angle);
    sine = std::sin(angle);
  }
};

/// Returns x (cosine - i sine), or x (cosine + i sine) if `back`.
ComplexValue turned(Builder& b, const ComplexValue& x, const Turn& turn, bool back) {
  const double sine = back ? -turn.sine : turn.sine;
  return {combine(b, turn.cosine, x.re, sine, x.im), combine(b, turn.cosine, x.im, -sine, x.re)};
}

ComplexValue sum(Builder& b, const ComplexValue& x, double factor, const ComplexValue& y) {
  return {combine(b, 1, x.re, factor, y.re), combine(b, 1, x.im, factor, y.im)};
}

/// Returns bin k in [0, h] of a transform of h points. `bins` holds the first half of its bins.
ComplexValue bin_at(Builder& b, const Bins& bins, std::size_t k, std::size_t h) {
  return k < bins.size() ? bins[k] : conjugate(b, bins[h - k]);
}

std::vector<Value> every_other(const std::vector<Value>& parts, std::size_t first) {
  std::vector<Value> chosen;
  for (std::size_t i = first; i < parts.size(); i += 2) chosen.push_back(parts[i]);
  return chosen;
}

}  // namespace

Bins emit_bins(Builder& b, const std::vector<Value>& parts) {
  if (parts.size() == 1) return {{parts[0], {}}};
  const std::size_t h = parts.size() / 2;
  const Bins even = emit_bins(b, every_other(parts, 0)), odd = emit_bins(b, every_other(parts, 1));
  Bins bins;
  for (std::size_t k = 0; k < h; ++k) {
    const Turn turn(k, parts.size());
    bins.push_back(sum(b, bin_at(b, even, k, h), 1, turned(b, bin_at(b, odd, k, h), turn, false)));
  }
  bins.push_back(sum(b, even[0], -1, odd[0]));
  return bins;
}

std::vector<Value> emit_parts(Builder& b, const Bins& bins) {
  if (bins.size() == 1) return {bins[0].re};
  const std::size_t h = bins.size() - 1;
  Bins even, odd;
  for (std::size_t k = 0; k <= h / 2; ++k) {
    const ComplexValue mirrored = conjugate(b, bins[h - k]);
    const Turn turn(k, 2 * h);
    even.push_back(sum(b, bins[k], 1, mirrored));
    odd.push_back(turned(b, sum(b, bins[k], -1, mirrored), turn, true));
  }
  const std::vector<Value> even_parts = emit_parts(b, even), odd_parts = emit_parts(b, odd);
  std::vector<Value> parts;
  for (std::size_t i = 0; i < h; ++i) {
    parts.push_back(even_parts[i]);
    parts.push_back(odd_parts[i]);
  }
  return parts;
}

}  // namespace rewire::ir
