// Cases of QR and of eigenvectors: matrices whose columns, or eigenvalues, are well apart, so that there is one answer
// and rounding moves it little.
#include "tests/support/case_builder.h"

namespace rewire::testing {

using namespace rewire::ir;

namespace {

/// Of no more than two matrices an axis.
Shape some_matrices(CaseBuilder& c, std::int64_t rows, std::int64_t cols) {
  Shape shape;
  for (std::int64_t rank = c.integer(0, 2); rank > 0; --rank) shape.push_back(c.integer(1, 2));
  shape.insert(shape.end(), {rows, cols});
  return shape;
}

/// Calls visit(row, column, element) of every matrix.
template <class Visit>
void each_element(Tensor& tensor, Visit visit) {
  const auto cols = static_cast<std::size_t>(tensor.type.shape.back());
  const auto rows = static_cast<std::size_t>(tensor.type.shape[tensor.type.shape.size() - 2]);
  for (std::size_t i = 0; i < tensor.data.size(); ++i) visit(i / cols % rows, i % cols, tensor.data[i]);
}

}  // namespace

void qr_case(CaseBuilder& c, Opcode code) {
  const std::int64_t cols = c.extent(24);
  Tensor a = c.tensor(some_matrices(c, cols + (c.chance(0.5) ? 0 : c.integer(1, 9)), cols), -1, 1);
  // Small beside the diagonal, of either sign.
  each_element(a, [&](std::size_t row, std::size_t col, double& x) {
    x = row == col ? (c.chance(0.5) ? 1 : -1) * static_cast<double>(1 + row % 4) : x / 8;
  });
  c.apply(code, {c.input(std::move(a), false)});
}

void eigh_case(CaseBuilder& c, Opcode code) {
  const std::int64_t n = c.extent(24);
  Tensor a = c.tensor(some_matrices(c, n, n), -1, 1);
  const auto order = static_cast<std::size_t>(n);
  each_element(a, [&](std::size_t row, std::size_t col, double& x) {
    x = row == col ? static_cast<double>((11 * row + 3) % order) - 4 : x / 32;
  });
  c.apply(code, {c.input(std::move(a), false)});
}

}  // namespace rewire::testing
