// Block-circulant products in smaller ops, by the lowering that suits their shape; see ir/ops/circulant.h. F
// is the Fourier transform of R points over the R parts of a slice, of m elements each
// (ir/ops/small_fourier.h):
//
//   C[j, t, i, s] = c[i, j, (s - t) mod n]     t in [0, m), s in [0, n); (t - s) for the correlation form
//   y = F^-1(F(x) F(C) / R)                    one product per bin; a complex one is real of twice the size
//   y = F^-1(F(x) (F(C) / R)^H)                with the transpose, by the same matrices
//   dC = F^-1(F(x)^H F(g)) / R
//   dc[i, j, l] = sum over t of dC[j, t, i, (t + l) mod n]     (t - l) for the correlation form
//
// With R = 1 there is no F, and C is the whole matrix.
#include "ir/opcodes.h"
#include "ir/ops/circulant.h"
#include "ir/ops/functions.h"
#include "ir/ops/op_info.h"
#include "ir/ops/small_fourier.h"

namespace rewire::ir {
namespace {

struct Plan {
  CirculantSizes sizes;
  int radix = 1;
  bool correlation = false;
  bool fft = false;
  std::int64_t part() const { return sizes.lags / radix; }  // m
};

/// Returns an i32 tensor of this shape: the index along `axis` times `factor`.
Value index_along(Builder& b, const Shape& shape, std::int64_t axis, std::int64_t factor) {
  const Value index = b.emit(Opcode::iota, {}, {{"axis", axis}}, TensorType{DType::i32, shape});
  return factor == 1 ? index : b.mul(index, b.constant(static_cast<double>(factor), DType::i32));
}

/// Returns left + right, or left - right if `subtract`, modulo n. Both operands are in [0, n).
Value add_modulo(Builder& b, Value left, Value right, bool subtract, std::int64_t n) {
  const Value extent = b.constant(static_cast<double>(n), DType::i32);
  if (subtract) {
    const Value difference = b.sub(left, right);
    const Value below = b.compare("lt", difference, b.constant(0, DType::i32));
    return b.select(below, b.add(difference, extent), difference);
  }
  const Value total = b.add(left, right);
  return b.select(b.compare("ge", total, extent), b.sub(total, extent), total);
}

/// Returns the shape with its last `count` axes replaced by `last`.
Shape with_last(Shape shape, std::size_t count, std::initializer_list<std::int64_t> last) {
  shape.resize(shape.size() - count);
  shape.insert(shape.end(), last);
  return shape;
}

/// Reads x as one row and returns its elements at `indices`, in the shape of `indices`.
Value gather_flat(Builder& b, Value x, Value indices) {
  const Shape shape = b.shape(indices);
  const Value row = b.reshape(x, {b.type(x).elements()});
  const Value index = b.reshape(indices, {element_count(shape)});
  return b.reshape(b.emit(Opcode::gather, {row, index}, {{"axis", std::int64_t{0}}}), shape);
}

/// Returns C [q m, p, n] for c [p, q, n].
Value emit_blocks(Builder& b, Value c, const Plan& plan) {
  const auto& [p, q, n] = plan.sizes;
  const Shape shape = {q, plan.part(), p, n};
  const Value t = index_along(b, shape, 1, 1), s = index_along(b, shape, 3, 1);
  const Value lag = plan.correlation ? add_modulo(b, t, s, true, n) : add_modulo(b, s, t, true, n);
  const Value block = b.add(index_along(b, shape, 2, q * n), index_along(b, shape, 0, n));
  return b.reshape(gather_flat(b, c, b.add(block, lag)), {q * plan.part(), p, n});
}

/// Returns dc [p, q, n] for dC [q m, p, n].
Value emit_lag_sums(Builder& b, Value blocks, const Plan& plan) {
  const auto& [p, q, n] = plan.sizes;
  const std::int64_t m = plan.part();
  const Shape shape = {p, q, m, n};
  const Value t = index_along(b, shape, 2, 1), lag = index_along(b, shape, 3, 1);
  const Value s = add_modulo(b, t, lag, plan.correlation, n);
  const Value block = b.add(b.add(index_along(b, shape, 1, m * p * n), index_along(b, shape, 2, p * n)),
                            index_along(b, shape, 0, n));
  return b.reshape(b.sum(gather_flat(b, blocks, b.add(block, s)), {2}), {p, q, n});
}

/// Returns [..., slices n] as [..., slices, n]. The leading
/// axes stay separate, so that all ops on x can fuse.
Value as_slices(Builder& b, Value x, std::int64_t slices, std::int64_t lags) {
  return b.reshape(x, with_last(b.shape(x), 1, {slices, lags}));
}

/// Returns [..., slices, n] as [rows, slices n].
Value flatten_slices(Builder& b, Value x) {
  const Shape& shape = b.shape(x);
  const std::int64_t width = shape[shape.size() - 2] * shape.back();
  return b.reshape(x, {b.type(x).elements() / width, width});
}

// --- Splits: R > 1 --------------------------------------------------------------------------------------

/// Returns F of slices [..., slices, n]: bins of [..., slices, m] each.
Bins emit_slice_bins(Builder& b, Value x, const Plan& plan) {
  const Shape shape = b.shape(x);
  const Value split = b.reshape(x, with_last(shape, 1, {plan.radix, plan.part()}));
  const auto axis = static_cast<int>(shape.size()) - 1;
  std::vector<Value> parts;
  for (int u = 0; u < plan.radix; ++u)
    parts.push_back(b.reshape(b.slice(split, axis, u, u + 1), with_last(shape, 1, {plan.part()})));
  return emit_bins(b, parts);
}

/// Returns R F^-1 of the bins: slices [..., slices, n].
Value emit_slices(Builder& b, const Bins& bins) {
  const Shape shape = b.shape(bins[0].re);
  std::vector<Value> parts = emit_parts(b, bins);
  for (Value& part : parts) part = b.reshape(part, with_last(shape, 1, {1, shape.back()}));
  const auto radix = static_cast<std::int64_t>(parts.size());
  return b.reshape(b.concat(parts, static_cast<int>(shape.size()) - 1),
                   with_last(shape, 1, {radix * shape.back()}));
}

/// Bins as operands of matrix products, [bins, rows, width] each. `complex` is invalid for R = 2.
struct Stacks {
  Value real;     // bins 0 and R / 2, width = slices m
  Value complex;  // the other bins, real parts next to imaginary parts: width = 2 slices m
};

/// Stacks tensors of [..., slices, m]. Each row of the stack has `wide` of them side by side.
Value stack(Builder& b, const std::vector<Value>& bins, std::int64_t wide) {
  std::vector<Value> parts;
  for (Value bin : bins) parts.push_back(flatten_slices(b, bin));
  const Shape shape = b.shape(parts[0]);
  const auto count = static_cast<std::int64_t>(bins.size()) / wide;
  const Value rows = b.reshape(b.concat(parts, 1), {shape[0], count, wide * shape[1]});
  return b.transpose(rows, {1, 0, 2});
}

Stacks emit_stacks(Builder& b, const Bins& bins) {
  std::vector<Value> complex;
  for (std::size_t k = 1; k + 1 < bins.size(); ++k) complex.insert(complex.end(), {bins[k].re, bins[k].im});
  return {stack(b, {bins.front().re, bins.back().re}, 1), complex.empty() ? Value{} : stack(b, complex, 2)};
}

/// Returns the matrices of F(C) / R. The matrix of a complex bin is [[re, im], [-im, re]], which multiplies
/// [re, im] from the right.
Stacks emit_matrices(Builder& b, Value blocks, const Plan& plan) {
  Bins bins = emit_slice_bins(b, blocks, plan), turned;
  for (ComplexValue& bin : bins) {
    bin.re = b.mul(bin.re, 1.0 / plan.radix);
    if (bin.im) bin.im = b.mul(bin.im, 1.0 / plan.radix);
    turned.push_back({bin.im ? b.unary(Opcode::neg, bin.im) : bin.re, bin.re});
  }
  Stacks stacks = emit_stacks(b, bins);
  if (!stacks.complex) return stacks;
  const Value halves[] = {stacks.complex, emit_stacks(b, turned).complex};
  stacks.complex = b.concat(halves, 1);
  return stacks;
}

/// Part `which` of the `count` equal parts of one axis.
Value part_of(Builder& b, Value x, int axis, std::int64_t which, std::int64_t count) {
  const std::int64_t extent = b.shape(x)[static_cast<std::size_t>(axis)] / count;
  return b.slice(x, axis, which * extent, (which + 1) * extent);
}

/// Returns the bins [..., slices, m] that the stacks hold. `shape` has the leading axes of the rows.
Bins read_stacks(Builder& b, const Stacks& stacks, std::int64_t slices, Shape shape) {
  shape.insert(shape.end(), {slices, b.shape(stacks.real)[2] / slices});
  const std::int64_t complex_bins = stacks.complex ? b.shape(stacks.complex)[0] : 0;
  Bins bins = {{b.reshape(part_of(b, stacks.real, 0, 0, 2), shape), {}}};
  for (std::int64_t k = 0; k < complex_bins; ++k) {
    const Value both = part_of(b, stacks.complex, 0, k, complex_bins);
    bins.push_back(
        {b.reshape(part_of(b, both, 2, 0, 2), shape), b.reshape(part_of(b, both, 2, 1, 2), shape)});
  }
  bins.push_back({b.reshape(part_of(b, stacks.real, 0, 1, 2), shape), {}});
  return bins;
}

Value emit_split_product(Builder& b, Value x, Value blocks, const Plan& plan, bool transpose) {
  const Stacks source = emit_stacks(b, emit_slice_bins(b, x, plan)),
               matrices = emit_matrices(b, blocks, plan);
  Stacks result{b.matmul(source.real, matrices.real, false, transpose), {}};
  if (source.complex) result.complex = b.matmul(source.complex, matrices.complex, false, transpose);
  return emit_slices(b, read_stacks(b, result, transpose ? plan.sizes.inputs : plan.sizes.outputs,
                                    with_last(b.shape(x), 2, {})));
}

/// Returns dC [q m, p, n]. For a complex bin, the product of [re, im] and [re, im] holds the four products
/// that make up conj(x) g.
Value emit_split_gradient(Builder& b, Value x, Value g, const Plan& plan) {
  const Stacks left = emit_stacks(b, emit_slice_bins(b, x, plan)),
               right = emit_stacks(b, emit_slice_bins(b, g, plan));
  Stacks products{b.matmul(left.real, right.real, true, false), {}};
  if (left.complex) {
    const Value all = b.matmul(left.complex, right.complex, true, false);
    const auto corner = [&](std::int64_t i, std::int64_t j) {
      return part_of(b, part_of(b, all, 1, i, 2), 2, j, 2);
    };
    const Value parts[] = {b.add(corner(0, 0), corner(1, 1)), b.sub(corner(0, 1), corner(1, 0))};
    products.complex = b.concat(parts, 2);
  }
  const Shape rows = {plan.sizes.inputs * plan.part()};
  return b.mul(emit_slices(b, read_stacks(b, products, plan.sizes.outputs, rows)), 1.0 / plan.radix);
}

// --- The FFT library ------------------------------------------------------------------------------------

Value bins_part(Builder& b, Value spectrum, std::int64_t which) {
  return part_of(b, spectrum, b.type(spectrum).rank() - 2, which, 2);
}

/// Returns the sum over `axes` of x y, or of conj(x) y if `conjugate`. The spectra are [..., 2, bins]; the
/// axis before the last has the real and the imaginary part.
Value emit_spectral_product(Builder& b, Value x, Value y, bool conjugate, const Ints& axes) {
  const Value x_re = bins_part(b, x, 0), x_im = bins_part(b, x, 1), y_re = bins_part(b, y, 0),
              y_im = bins_part(b, y, 1);
  const Value rr = b.mul(x_re, y_re), ii = b.mul(x_im, y_im), ri = b.mul(x_re, y_im), ir = b.mul(x_im, y_re);
  const Value parts[] = {b.sum(conjugate ? b.add(rr, ii) : b.sub(rr, ii), axes),
                         b.sum(conjugate ? b.sub(ri, ir) : b.add(ri, ir), axes)};
  return b.concat(parts, b.type(parts[0]).rank() - 2);
}

/// Returns the spectra [rows, slices, 2, bins] of [..., slices, n].
/// An axis of extent 1 is inserted at `axis`.
Value emit_spectra(Builder& b, Value slices, std::ptrdiff_t axis) {
  const Shape given = b.shape(slices);
  const std::int64_t count = given[given.size() - 2], lags = given.back();
  const Value spectra =
      b.emit(Opcode::rfft, {b.reshape(slices, {b.type(slices).elements() / (count * lags), count, lags})});
  Shape shape = b.shape(spectra);
  shape.insert(shape.begin() + axis, 1);
  return b.reshape(spectra, shape);
}

/// y = irfft(sum over j of rfft(x) rfft(c)). The correlation form conjugates rfft(c), and so does the
/// transpose. If both apply, rfft(c) is not conjugated.
Value emit_fft_product(Builder& b, Value x, Value c, const Plan& plan, bool transpose) {
  const Value spectra = emit_spectra(b, x, transpose ? 2 : 1);
  const Value lags = emit_spectra(b, c, 0);  // [1, p, q, 2, bins]
  const Value total =
      emit_spectral_product(b, lags, spectra, plan.correlation != transpose, {transpose ? 1 : 2});
  const Shape shape = b.shape(total);
  const Value rows = b.reshape(total, {shape[0], shape[1] * shape[2], 2, shape[4]});
  return b.emit(Opcode::irfft, {rows}, {{"length", plan.sizes.lags}});
}

/// dc = irfft(sum over rows of conj(rfft(x)) rfft(g)). The
/// correlation form conjugates rfft(g) instead of rfft(x).
Value emit_fft_gradient(Builder& b, Value x, Value g, const Plan& plan) {
  const Value source = emit_spectra(b, x, 1), result = emit_spectra(b, g, 2);
  const Value total = plan.correlation ? emit_spectral_product(b, result, source, true, {0})
                                       : emit_spectral_product(b, source, result, true, {0});
  const Shape shape = b.shape(total);
  const Value lags = b.reshape(total, {shape[1], shape[2], 2, shape[4]});
  return b.emit(Opcode::irfft, {lags}, {{"length", plan.sizes.lags}});
}

Plan make_plan(const Op& op, const CirculantSizes& sizes, DType dtype) {
  std::string lowering = op.attributes.get_string("lowering");
  const bool narrow = dtype == DType::bf16 || dtype == DType::f16;  // transforms would round inner values
  if (lowering == "auto" || narrow) lowering = circulant_candidates(sizes, dtype).front();
  return {sizes, split_radix(lowering), op.attributes.get_bool("correlation"), lowering == "fft"};
}

}  // namespace

std::vector<Value> decompose_circulant_matmul(Builder& b, const Op& op) {
  const TensorType result = b.type(op.results[0]);
  const bool transpose = op.attributes.get_bool("transpose");
  const Value c = op.operands[1];
  const Shape lags = b.shape(c);
  const std::int64_t slices = lags[transpose ? 0 : 1];
  const Value x = as_slices(b, op.operands[0], slices, lags[2]);
  const Plan plan = make_plan(op, {lags[0], lags[1], lags[2]}, result.dtype);
  Value y;
  if (plan.fft) {
    y = emit_fft_product(b, x, c, plan, transpose);
  } else if (plan.radix > 1) {
    y = emit_split_product(b, x, emit_blocks(b, c, plan), plan, transpose);
  } else {
    y = b.matmul(flatten_slices(b, x), flatten_slices(b, emit_blocks(b, c, plan)), false, transpose);
  }
  return {b.reshape(y, result.shape)};
}

std::vector<Value> decompose_circulant_matmul_grad(Builder& b, const Op& op) {
  const TensorType result = b.type(op.results[0]);
  const Shape lags = result.shape;
  const Value x = as_slices(b, op.operands[0], lags[1], lags[2]);
  const Value g = as_slices(b, op.operands[1], lags[0], lags[2]);
  const Plan plan = make_plan(op, {lags[0], lags[1], lags[2]}, result.dtype);
  if (plan.fft) return {emit_fft_gradient(b, x, g, plan)};
  const Value blocks = plan.radix > 1 ? emit_split_gradient(b, x, g, plan)
                                      : b.matmul(flatten_slices(b, x), flatten_slices(b, g), true, false);
  return {emit_lag_sums(b, blocks, plan)};
}

}  // namespace rewire::ir
