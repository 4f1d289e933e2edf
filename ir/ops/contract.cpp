// Contractions: matmul.
#include "ir/error.h"
#include "ir/ops/checks.h"
#include "ir/ops/functions.h"

namespace rewire::ir {
namespace {

struct MatmulShape {
  std::int64_t m = 0, n = 0, k = 0, inner_b = 0;
};

MatmulShape matmul_shape(const Shape& a, const Shape& b, const Attributes& attributes) {
  const bool transpose_a = attributes.get_bool("transpose_a");
  const bool transpose_b = attributes.get_bool("transpose_b");
  const std::size_t i = a.size() - 2;
  const std::size_t j = b.size() - 2;
  MatmulShape shape;
  shape.m = a[transpose_a ? i + 1 : i];
  shape.k = a[transpose_a ? i : i + 1];
  shape.inner_b = b[transpose_b ? j + 1 : j];
  shape.n = b[transpose_b ? j : j + 1];
  return shape;
}

/// Returns the rows x columns matrix at `source`. If `transposed`, `source` stores it as columns x rows.
std::vector<double> load_matrix(const double* source, std::int64_t rows, std::int64_t columns,
                                bool transposed) {
  const std::int64_t count = rows * columns;
  if (!transposed) return {source, source + count};
  std::vector<double> matrix(static_cast<std::size_t>(count));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      matrix[static_cast<std::size_t>(r * columns + c)] = source[c * rows + r];
    }
  }
  return matrix;
}

/// c [m, n] += a [m, k] b [k, n], all row-major; the innermost loop runs along rows of b and c.
void multiply(const std::vector<double>& a, const std::vector<double>& b, double* c,
              const MatmulShape& shape) {
  for (std::int64_t i = 0; i < shape.m; ++i) {
    double* row_c = c + i * shape.n;
    for (std::int64_t p = 0; p < shape.k; ++p) {
      const double factor = a[static_cast<std::size_t>(i * shape.k + p)];
      const double* row_b = b.data() + p * shape.n;
      for (std::int64_t j = 0; j < shape.n; ++j) row_c[j] += factor * row_b[j];
    }
  }
}

}  // namespace

std::vector<TensorType> infer_matmul(const InferContext& context) {
  const TensorType& a = context.operand(0);
  const TensorType& b = context.operand(1);
  require_float(context, 0);
  if (a.dtype != b.dtype) user_error("operand dtypes differ (cast one)");
  if (a.rank() < 2 || b.rank() < 2) user_error("both operands must have rank 2 or more");
  const MatmulShape shape = matmul_shape(a.shape, b.shape, context.attributes);
  if (shape.k != shape.inner_b) user_error("inner extents {} and {} differ", shape.k, shape.inner_b);
  Shape result(a.shape.begin(), a.shape.end() - 2);
  if (b.rank() != 2 && result != Shape(b.shape.begin(), b.shape.end() - 2)) {
    user_error("the leading axes differ, and the second operand's rank is not 2");
  }
  result.push_back(shape.m);
  result.push_back(shape.n);
  return {{a.dtype, result}};
}

Work work_matmul(const WorkContext& context) {
  const MatmulShape shape =
      matmul_shape(context.operands[0].shape, context.operands[1].shape, context.attributes);
  const double multiply_adds =
      static_cast<double>(context.results[0].elements()) * static_cast<double>(shape.k);
  return {2 * multiply_adds, multiply_adds};
}

void eval_matmul(EvalContext& context) {
  const Tensor& a = context.in(0);
  const Tensor& b = context.in(1);
  const Attributes& attributes = context.op.attributes;
  const MatmulShape shape = matmul_shape(a.type.shape, b.type.shape, attributes);
  const std::int64_t batch = a.type.elements() / (shape.m * shape.k);
  const std::int64_t stride_b = b.type.rank() == 2 ? 0 : shape.k * shape.n;
  std::vector<double> matrix_b;
  for (std::int64_t i = 0; i < batch; ++i) {
    const std::vector<double> matrix_a = load_matrix(a.data.data() + i * shape.m * shape.k, shape.m, shape.k,
                                                     attributes.get_bool("transpose_a"));
    if (i == 0 || stride_b != 0) {
      matrix_b =
          load_matrix(b.data.data() + i * stride_b, shape.k, shape.n, attributes.get_bool("transpose_b"));
    }
    multiply(matrix_a, matrix_b, context.out().data.data() + i * shape.m * shape.n, shape);
  }
}

}  // namespace rewire::ir
