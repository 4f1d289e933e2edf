// Fourier transforms of dense f32 rows by FFTW, cut into tasks by rows. The cut depends on the shape alone,
// so the result does not depend on which thread computes a task.
#include "codegen/library/fft.h"
#include "ir/opcodes.h"
#include "runtime/exec/cpu/op_calls.h"

namespace rewire::runtime {

extern const CpuOp kCpuRfft, kCpuIrfft;

namespace {

constexpr std::int64_t kMostTransformTasks = 64;  // enough for balance, few enough to cost nothing

class CpuFft final : public CpuLaunch {
 public:
  explicit CpuFft(const codegen::OpCall& call) : from_(call.operands[0]), to_(call.results[0]) {
    const bool inverse = call.op.code == ir::Opcode::irfft;
    const std::int64_t length = (inverse ? to_ : from_).shape.back();
    const std::int64_t rows = ir::element_count((inverse ? to_ : from_).shape) / length;
    grain_ = (rows + kMostTransformTasks - 1) / kMostTransformTasks;
    tasks_ = (rows + grain_ - 1) / grain_;
    full_ = std::make_unique<codegen::Fft>(codegen::FftShape{grain_, length, inverse});
    last_ = std::make_unique<codegen::Fft>(codegen::FftShape{rows - (tasks_ - 1) * grain_, length, inverse});
    const std::int64_t spectrum = 2 * (length / 2 + 1);
    from_step_ = grain_ * (inverse ? spectrum : length);
    to_step_ = grain_ * (inverse ? length : spectrum);
  }
  std::int64_t tasks() const override { return tasks_; }
  std::int64_t scratch_bytes() const override { return 0; }
  void bind(const BufferPointers& pointers) override {
    input_ = reinterpret_cast<const float*>(pointers[static_cast<std::size_t>(from_.buffer)]) + from_.offset;
    output_ = reinterpret_cast<float*>(pointers[static_cast<std::size_t>(to_.buffer)]) + to_.offset;
  }
  void run(std::int64_t task, void*) const override {
    const codegen::Fft& transform = task + 1 == tasks_ ? *last_ : *full_;
    transform.run(input_ + task * from_step_, output_ + task * to_step_);
  }

 private:
  codegen::View from_, to_;
  std::int64_t grain_ = 1, tasks_ = 1, from_step_ = 0, to_step_ = 0;
  std::unique_ptr<codegen::Fft> full_, last_;
  const float* input_ = nullptr;
  float* output_ = nullptr;
};

bool is_f32(const codegen::Program& program, const codegen::OpCall& call) {
  return program.buffers[static_cast<std::size_t>(call.operands[0].buffer)].type.dtype == ir::DType::f32;
}

std::unique_ptr<CpuLaunch> make_transform(const codegen::OpCall& call) {
  return std::make_unique<CpuFft>(call);
}

}  // namespace

const CpuOp kCpuRfft{ir::Opcode::rfft, is_f32, make_transform};
const CpuOp kCpuIrfft{ir::Opcode::irfft, is_f32, make_transform};

}  // namespace rewire::runtime
