// Cases of Fourier transforms and of block-circulant products, with every lowering.
#include "tests/support/case_builder.h"

namespace rewire::testing {

using namespace rewire::ir;

namespace {

/// Some axes before the last one, of few elements.
Shape leading_axes(CaseBuilder& c) {
  Shape shape;
  for (std::int64_t rank = c.integer(0, 2); rank > 0; --rank) shape.push_back(c.integer(1, 7));
  return shape;
}

Shape with_last(Shape shape, std::int64_t extent) {
  shape.push_back(extent);
  return shape;
}

struct CirculantCase {
  std::int64_t outputs, inputs, lags;
  bool correlation;
  std::string lowering;
};

CirculantCase circulant(CaseBuilder& c) {
  const std::int64_t lags = c.pick<std::int64_t>({1, 2, 3, 4, 7, 8, 12, 16, 24, 25});
  std::string lowering = c.pick({"auto", "dense", "split2", "split4", "split8", "fft"});
  const bool split = lowering.starts_with("split");
  if (split && lags % (lowering.back() - '0') != 0) lowering = "dense";
  return {c.integer(1, 4), c.integer(1, 3), lags, c.chance(0.5), lowering};
}

}  // namespace

void rfft_case(CaseBuilder& c, Opcode code) {
  c.apply(code, {c.input(c.tensor(with_last(leading_axes(c), c.extent(100))))});
}

void irfft_case(CaseBuilder& c, Opcode code) {
  const std::int64_t length = c.extent(100);
  Shape shape = with_last(leading_axes(c), 2);
  shape.push_back(length / 2 + 1);
  c.apply(code, {c.input(c.tensor(shape))}, {{"length", length}});
}

void irfft_pairs_case(CaseBuilder& c, Opcode code) {
  const std::int64_t length = c.extent(100), bins = length / 2 + 1;
  Shape shape = with_last(leading_axes(c), bins);
  shape.push_back(2);
  Tensor spectra = c.tensor(shape);
  for (std::size_t pair = 0; 2 * pair < spectra.data.size(); ++pair) {
    const auto bin = static_cast<std::int64_t>(pair) % bins;
    if (bin == 0 || 2 * bin == length) spectra.data[2 * pair + 1] = 0;
  }
  c.apply(code, {c.input(std::move(spectra))}, {{"length", length}});
}

void circulant_matmul_case(CaseBuilder& c, Opcode code) {
  const CirculantCase op = circulant(c);
  const bool transpose = c.chance(0.5);
  const Value x =
      c.input(c.tensor(with_last(leading_axes(c), (transpose ? op.outputs : op.inputs) * op.lags)));
  c.apply(code, {x, c.input(c.tensor({op.outputs, op.inputs, op.lags}))},
          {{"correlation", op.correlation}, {"transpose", transpose}, {"lowering", op.lowering}});
}

void circulant_matmul_grad_case(CaseBuilder& c, Opcode code) {
  const CirculantCase op = circulant(c);
  const Shape rows = leading_axes(c);
  const Value x = c.input(c.tensor(with_last(rows, op.inputs * op.lags)));
  c.apply(code, {x, c.input(c.tensor(with_last(rows, op.outputs * op.lags)))},
          {{"correlation", op.correlation}, {"lags", op.lags}, {"lowering", op.lowering}});
}

}  // namespace rewire::testing
