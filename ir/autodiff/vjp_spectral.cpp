// VJPs of the Fourier transforms of real rows. w_k is 2 for a bin that also represents bin n - k, else 1:
//   y = rfft(x)          dx = irfft(g n / w)
//   x = irfft(y)         dy = rfft(g) w / n
#include "ir/opcodes.h"
#include "ir/ops/functions.h"
#include "ir/ops/op_info.h"

namespace rewire::ir {
namespace {

/// Returns w / n, or n / w if `inverse`: one number per bin.
Value bin_weights(Builder& b, std::int64_t n, DType dtype, bool inverse) {
  const std::int64_t bins = n / 2 + 1;
  Doubles weights;
  for (std::int64_t k = 0; k < bins; ++k) {
    const double share = (k == 0 || 2 * k == n ? 1.0 : 2.0) / static_cast<double>(n);
    weights.push_back(inverse ? 1 / share : share);
  }
  return b.emit(Opcode::constant, {}, {{"values", weights}}, TensorType{dtype, {bins}});
}

}  // namespace

void vjp_rfft(VjpContext& c) {
  Builder& b = c.builder;
  const std::int64_t n = b.shape(c.operand(0)).back();
  const Value weights = bin_weights(b, n, b.type(c.cotangent()).dtype, true);
  c.accumulate(0, b.emit(Opcode::irfft, {b.mul(c.cotangent(), weights)}, {{"length", n}}));
}

void vjp_irfft(VjpContext& c) {
  Builder& b = c.builder;
  const std::int64_t n = c.op.attributes.get_int("length");
  const Value spectrum = b.emit(Opcode::rfft, {c.cotangent()});
  c.accumulate(0, b.mul(spectrum, bin_weights(b, n, b.type(spectrum).dtype, false)));
}

}  // namespace rewire::ir
