// qr and eigh of dense f32 matrices by LAPACK, in double precision as in the evaluator. A task computes one
// matrix on one thread. The result is NaN if a matrix is not finite or LAPACK finds no decomposition of it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "runtime/exec/cpu/op_calls.h"
#include "runtime/linalg/lapack.h"

namespace rewire::runtime {

extern const CpuOp kCpuQr, kCpuEigh;

namespace {

class CpuDecomposition final : public CpuLaunch {
 public:
  explicit CpuDecomposition(const codegen::OpCall& call)
      : is_qr_(call.op.code == ir::Opcode::qr), from_(call.operands[0]), to_(call.results[0]) {
    matrix_.count = 1;
    matrix_.rows = static_cast<std::size_t>(from_.shape[from_.shape.size() - 2]);
    matrix_.cols = static_cast<std::size_t>(from_.shape.back());
    size_ = matrix_.rows * matrix_.cols;
    // The elements of qr's triangle, or the number of eigh's eigenvalues.
    rest_ = is_qr_ ? matrix_.cols * matrix_.cols : matrix_.cols;
  }
  std::int64_t tasks() const override {
    return ir::element_count(from_.shape) / static_cast<std::int64_t>(size_);
  }
  std::int64_t scratch_bytes() const override {
    return static_cast<std::int64_t>((2 * size_ + rest_) * sizeof(double));
  }
  void bind(const BufferPointers& pointers) override {
    input_ = reinterpret_cast<const float*>(pointers[static_cast<std::size_t>(from_.buffer)]) + from_.offset;
    output_ = reinterpret_cast<float*>(pointers[static_cast<std::size_t>(to_.buffer)]) + to_.offset;
  }
  void run(std::int64_t task, void* scratch) const override {
    const std::span<const float> from(input_ + static_cast<std::size_t>(task) * size_, size_);
    const std::span<float> to(output_ + static_cast<std::size_t>(task) * size_, size_);
    const std::span<double> doubles(static_cast<double*>(scratch), 2 * size_ + rest_);
    const std::span<double> a = doubles.first(size_), basis = doubles.subspan(size_, size_),
                            rest = doubles.last(rest_);
    std::ranges::copy(from, a.begin());
    if (!decompose(a, basis, rest)) std::ranges::fill(basis, std::numeric_limits<double>::quiet_NaN());
    std::ranges::transform(basis, to.begin(), [](double x) { return static_cast<float>(x); });
  }

 private:
  bool decompose(std::span<const double> a, std::span<double> basis, std::span<double> rest) const {
    if (!std::ranges::all_of(a, [](double x) { return std::isfinite(x); })) return false;
    try {
      if (is_qr_) {
        qr(matrix_, a, basis, rest, 1);
      } else {
        eigh(matrix_, a, rest, basis, 1);
      }
    } catch (const RuntimeFailure&) {
      return false;
    }
    return true;
  }

  bool is_qr_;
  codegen::View from_, to_;
  MatrixBatch matrix_;  // one of them
  std::size_t size_ = 0, rest_ = 0;
  const float* input_ = nullptr;
  float* output_ = nullptr;
};

bool takes_matrices(const codegen::Program& program, const codegen::OpCall& call) {
  const ir::TensorType& type = program.buffers[static_cast<std::size_t>(call.operands[0].buffer)].type;
  return type.dtype == ir::DType::f32 && has_lapack();
}

std::unique_ptr<CpuLaunch> make_decomposition(const codegen::OpCall& call) {
  return std::make_unique<CpuDecomposition>(call);
}

}  // namespace

const CpuOp kCpuQr{ir::Opcode::qr, takes_matrices, make_decomposition};
const CpuOp kCpuEigh{ir::Opcode::eigh, takes_matrices, make_decomposition};

}  // namespace rewire::runtime
