// Fourier transforms of pairs by cuFFT.
#include <algorithm>
#include <optional>

#include "ir/opcodes.h"
#include "runtime/exec/cuda/op_calls.h"
#include "runtime/exec/memory_plan.h"

namespace rewire::runtime {

extern const CudaOp kCudaRfft, kCudaIrfft;

namespace {

using codegen::OpCall;
using codegen::Program;
using cuda::Address;
using cuda::Stream;

/// Returns the rows that an op on pairs transforms; nullopt for another op.
std::optional<ir::FourierRows> fourier_rows(const Program& program, const OpCall& call) {
  const bool inverse = call.op.code == ir::Opcode::irfft_pairs;
  if (!inverse && call.op.code != ir::Opcode::rfft_pairs) return std::nullopt;
  const codegen::View& real = inverse ? call.results[0] : call.operands[0];
  const std::int64_t elements = ir::element_count(real.shape);
  if (elements == 0) return std::nullopt;
  return ir::FourierRows{elements / real.shape.back(), real.shape.back(), inverse,
                         program.buffers[static_cast<std::size_t>(real.buffer)].type.dtype};
}

/// A cuFFT plan. cuFFT requires arrays aligned to complex numbers, and the inverse may overwrite its input.
/// So the call reads a copy if another launch reads the input later. Misaligned windows are copied too: the
/// input before the call, the result after it.
class FftCall final : public CudaLaunch {
 public:
  FftCall(const OpCall& call, const codegen::DeviceFft& fft, const ir::FourierRows& rows, bool keep_input)
      : from_(call.operands[0]),
        to_(call.results[0]),
        fft_(fft),
        name_(fmt::format("{} by cuFFT", codegen::full_name(rows))),
        element_(static_cast<std::int64_t>(ir::dtype_bytes(rows.dtype))),
        work_bytes_(device_aligned(fft.workspace_bytes())) {
    if ((rows.inverse && keep_input) || is_misaligned(from_)) input_bytes_ = device_aligned(bytes(from_));
    if (is_misaligned(to_)) output_bytes_ = bytes(to_);
  }

  std::int64_t workspace_bytes() const override { return work_bytes_ + input_bytes_ + output_bytes_; }
  bool is_library_call() const override { return true; }
  LaunchLabel label() const override { return {name_}; }
  void enqueue(const std::vector<Address>& buffers, Address workspace, const Stream& stream) const override {
    const auto at = [&](const codegen::View& view) {
      return buffers[static_cast<std::size_t>(view.buffer)] + static_cast<Address>(view.offset * element_);
    };
    const Address copy = workspace + static_cast<Address>(work_bytes_);
    const Address input = input_bytes_ > 0 ? copy : at(from_);
    const Address output = output_bytes_ > 0 ? copy + static_cast<Address>(input_bytes_) : at(to_);
    if (input_bytes_ > 0) stream.copy(input, at(from_), bytes(from_), "of the input of " + name_);
    fft_.run(reinterpret_cast<void*>(input), reinterpret_cast<void*>(output),
             reinterpret_cast<void*>(workspace), stream.handle());
    if (output_bytes_ > 0) stream.copy(at(to_), output, bytes(to_), "of the result of " + name_);
  }

 private:
  static bool is_misaligned(const codegen::View& view) { return view.offset % 2 != 0; }
  std::int64_t bytes(const codegen::View& view) const { return ir::element_count(view.shape) * element_; }

  codegen::View from_, to_;
  const codegen::DeviceFft& fft_;
  std::string name_;
  std::int64_t element_, work_bytes_, input_bytes_ = 0, output_bytes_ = 0;  // the last two: of copies
};

/// Returns true if a buffer's contents are needed after this launch: the caller owns
/// it, or a later launch reads it.
bool is_read_behind(const Program& program, std::size_t launch, std::int32_t buffer) {
  if (program.buffers[static_cast<std::size_t>(buffer)].kind != codegen::BufferKind::temporary) return true;
  return std::any_of(program.launches.begin() + static_cast<std::ptrdiff_t>(launch) + 1,
                     program.launches.end(), [&](const codegen::Launch& later) {
                       const BufferUse use = buffers_of(later);
                       return std::ranges::find(use.reads, buffer) != use.reads.end();
                     });
}

std::unique_ptr<CudaLaunch> make_fft(const Program& program, std::size_t launch, CudaLibraries& libraries) {
  const auto& call = std::get<OpCall>(program.launches[launch]);
  const std::optional<ir::FourierRows> rows = fourier_rows(program, call);
  const codegen::DeviceFft* const fft = rows ? libraries.fft(*rows) : nullptr;
  if (fft == nullptr) return nullptr;
  return std::make_unique<FftCall>(call, *fft, *rows,
                                   is_read_behind(program, launch, call.operands[0].buffer));
}

}  // namespace

const CudaOp kCudaRfft{ir::Opcode::rfft_pairs, make_fft};
const CudaOp kCudaIrfft{ir::Opcode::irfft_pairs, make_fft};

}  // namespace rewire::runtime
