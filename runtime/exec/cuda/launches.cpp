#include "runtime/exec/cuda/launches.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "codegen/cost.h"
#include "ir/error.h"
#include "ir/ops/op_info.h"
#include "runtime/exec/cpu/host_op.h"
#include "runtime/exec/memory_plan.h"

namespace rewire::runtime {
namespace {

using codegen::AttentionLaunch;
using codegen::GemmLaunch;
using codegen::HostLaunch;
using codegen::KernelLaunch;
using codegen::Program;
using cuda::Address;
using cuda::Stream;

class KernelCall final : public CudaLaunch {
 public:
  KernelCall(const KernelLaunch& launch, CudaKernel kernel)
      : buffers_(launch.buffers),
        kernel_(std::move(kernel)),
        what_(fmt::format("of '{}'", launch.kernel.name)) {}

  void enqueue(const std::vector<Address>& buffers, Address, const Stream& stream) const override {
    std::vector<Address> arguments;
    for (const std::int32_t buffer : buffers_) arguments.push_back(buffers[static_cast<std::size_t>(buffer)]);
    cuda::launch(kernel_.function, kernel_.grid, arguments, stream, what_);
  }

 private:
  std::vector<std::int32_t> buffers_;
  CudaKernel kernel_;
  std::string what_;
};

/// One launch for all members of a table, each in blocks of its own.
class TableCall final : public CudaLaunch {
 public:
  TableCall(const KernelLaunch& launch, CudaKernel kernel, PointerTables& tables)
      : kernel_(std::move(kernel)),
        tables_(tables),
        what_(fmt::format("of '{}', a table of {}", launch.kernel.name, launch.members())) {
    kernel_.grid.members = static_cast<std::int64_t>(launch.members());
    offset_ = tables.add(launch.buffers);
    for (const codegen::LaunchMember& member : launch.others) tables.add(member.buffers);
  }

  void enqueue(const std::vector<Address>&, Address, const Stream& stream) const override {
    const Address table = tables_.address() + static_cast<Address>(offset_);
    cuda::launch(kernel_.function, kernel_.grid, std::span(&table, 1), stream, what_);
  }

 private:
  CudaKernel kernel_;
  const PointerTables& tables_;
  std::int64_t offset_ = 0;
  std::string what_;
};

/// A product of cuBLASLt's, or one for each index of its outer axes.
class GemmCall final : public CudaLaunch {
 public:
  GemmCall(const Program& program, const GemmLaunch& launch, CudaLibraries& libraries)
      : a_(launch.a.buffer),
        b_(launch.b.buffer),
        c_(launch.c.buffer),
        bias_(launch.bias.buffer),
        pre_(launch.pre.buffer),
        calls_(codegen::device_gemm_calls(program, launch, libraries.tf32())),
        gemm_(libraries.gemm(calls_.front().shape, launch.location)) {}

  std::int64_t workspace_bytes() const override { return gemm_.workspace_bytes(); }
  bool is_library_call() const override { return true; }
  LaunchLabel label() const override {
    const std::string& algorithm = gemm_.chosen();
    const std::size_t from = algorithm.find("algorithm"), to = algorithm.rfind(": ");
    const auto calls = static_cast<std::int64_t>(calls_.size()) * gemm_.calls();
    const codegen::DeviceGemmShape& shape = calls_.front().shape;
    return {
        fmt::format("{}{}, {}", codegen::full_name(shape), calls == 1 ? "" : fmt::format(", {} calls", calls),
                    algorithm.substr(from, to - from)),
        LaunchProducts{.calls = static_cast<std::int64_t>(calls_.size()),
                       .batch = shape.batch,
                       .m = shape.m,
                       .n = shape.n,
                       .k = shape.k,
                       .a_transposed = shape.a.column != 1,
                       .b_transposed = shape.b.column != 1,
                       .a_repeats = shape.batch > 1 && shape.a.batch == 0,
                       .b_repeats = shape.batch > 1 && shape.b.batch == 0,
                       .dtype = shape.dtype,
                       .result = shape.result,
                       .tf32 = shape.tf32}};
  }
  void enqueue(const std::vector<Address>& buffers, Address workspace, const Stream& stream) const override {
    const auto at = [&](std::int32_t buffer, std::int64_t offset) -> void* {
      if (buffer < 0) return nullptr;
      return reinterpret_cast<void*>(buffers[static_cast<std::size_t>(buffer)] +
                                     static_cast<Address>(offset));
    };
    for (const codegen::DeviceGemmCall& call : calls_)
      gemm_.run({at(a_, call.a), at(b_, call.b), at(c_, call.c), at(bias_, call.bias), at(pre_, call.pre)},
                reinterpret_cast<void*>(workspace), stream.handle());
  }

 private:
  std::int32_t a_, b_, c_, bias_, pre_;
  std::vector<codegen::DeviceGemmCall> calls_;  // of one shape
  const codegen::DeviceGemm& gemm_;
};

/// The rows that an op of pairs transforms; nothing for another op.
std::optional<ir::FourierRows> fourier_rows(const Program& program, const HostLaunch& launch) {
  const bool inverse = launch.op.code == ir::Opcode::irfft_pairs;
  if (!inverse && launch.op.code != ir::Opcode::rfft_pairs) return std::nullopt;
  const codegen::View& real = inverse ? launch.results[0] : launch.operands[0];
  const std::int64_t elements = ir::element_count(real.shape);
  if (elements == 0) return std::nullopt;
  return ir::FourierRows{elements / real.shape.back(), real.shape.back(), inverse,
                         program.buffers[static_cast<std::size_t>(real.buffer)].type.dtype};
}

/// A plan of cuFFT's, which wants arrays aligned to complex numbers. The inverse may overwrite what it reads.
/// So it reads a copy where others read the same later, and reads and writes one where a window is
/// misaligned.
class FftCall final : public CudaLaunch {
 public:
  FftCall(const HostLaunch& launch, const codegen::DeviceFft& fft, const ir::FourierRows& rows,
          bool keep_input)
      : from_(launch.operands[0]),
        to_(launch.results[0]),
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

/// Whether what stands in a buffer is wanted behind this launch: it is the caller's, or a later one reads it.
bool is_read_behind(const Program& program, std::size_t launch, std::int32_t buffer) {
  if (program.buffers[static_cast<std::size_t>(buffer)].kind != codegen::BufferKind::temporary) return true;
  return std::any_of(program.launches.begin() + static_cast<std::ptrdiff_t>(launch) + 1,
                     program.launches.end(), [&](const codegen::Launch& later) {
                       const BufferUse use = buffers_of(later);
                       return std::ranges::find(use.reads, buffer) != use.reads.end();
                     });
}

/// Attention, or its gradient, by the engine of cuDNN's that was chosen for it.
class AttentionCall final : public CudaLaunch {
 public:
  AttentionCall(const Program& program, const AttentionLaunch& launch, CudaLibraries& libraries)
      : launch_(launch),
        shape_(device_attention(program, launch).value()),
        call_(*libraries.attention(shape_)) {}

  std::int64_t workspace_bytes() const override { return call_.workspace_bytes(); }
  bool is_library_call() const override { return true; }
  LaunchLabel label() const override {
    return {fmt::format("{}, {}", codegen::full_name(shape_), call_.chosen())};
  }
  void enqueue(const std::vector<Address>& buffers, Address workspace, const Stream& stream) const override {
    const auto at = [&](const codegen::View& view, std::int64_t element_bytes) -> void* {
      if (view.buffer < 0) return nullptr;
      return reinterpret_cast<void*>(buffers[static_cast<std::size_t>(view.buffer)] +
                                     static_cast<Address>(view.offset * element_bytes));
    };
    constexpr std::int64_t kBf16 = 2, kF32 = 4;  // bytes
    call_.run({at(launch_.q, kBf16), at(launch_.k, kBf16), at(launch_.v, kBf16), at(launch_.output, kBf16),
               at(launch_.lse, kF32), at(launch_.d_output, kBf16), at(launch_.dq, kBf16),
               at(launch_.dk, kBf16), at(launch_.dv, kBf16)},
              reinterpret_cast<void*>(workspace), stream.handle());
  }

 private:
  AttentionLaunch launch_;
  codegen::DeviceAttentionShape shape_;
  const codegen::CudnnAttention& call_;
};

/// Out to pinned memory, the evaluator's function, and back: all buffers that the op touches, whole.
class OpCall final : public CudaLaunch {
 public:
  OpCall(const Program& program, const HostLaunch& launch, HostFailure& failure)
      : op_(program, launch),
        failure_(failure),
        what_(fmt::format("of the op '{}'", ir::describe(launch.op))) {
    const BufferUse use = buffers_of(codegen::Launch(launch));
    std::set<std::int32_t> all(use.reads.begin(), use.reads.end());
    all.insert(use.writes.begin(), use.writes.end());
    pointers_.resize(program.buffers.size());
    for (const std::int32_t buffer : all) {
      const auto index = static_cast<std::size_t>(buffer);
      const std::int64_t bytes = program.buffers[index].type.bytes();
      copies_.push_back({index, bytes, std::ranges::find(use.writes, buffer) != use.writes.end(),
                         cuda::PinnedMemory(bytes, what_.substr(3))});
      pointers_[index] = copies_.back().memory.bytes().data();
    }
  }

  void enqueue(const std::vector<Address>& buffers, Address, const Stream& stream) const override {
    for (const Copy& copy : copies_)
      stream.copy_out(copy.memory.bytes().data(), buffers[copy.buffer], copy.bytes, what_);
    stream.call(&OpCall::run, const_cast<OpCall*>(this), what_);
    for (const Copy& copy : copies_) {
      if (copy.written) stream.copy_in(buffers[copy.buffer], copy.memory.bytes().data(), copy.bytes, what_);
    }
  }

 private:
  struct Copy {
    std::size_t buffer;
    std::int64_t bytes;
    bool written;
    cuda::PinnedMemory memory;
  };

  static void run(void* self) {
    auto& call = *static_cast<OpCall*>(self);
    try {
      call.op_.run(call.pointers_);
    } catch (const std::exception& error) {
      call.failure_.set(fmt::format("{}: {}", call.what_.substr(3), error.what()));
    }
  }

  HostOp op_;
  HostFailure& failure_;
  std::string what_;
  std::vector<Copy> copies_;
  BufferPointers pointers_;
};

}  // namespace

std::int64_t PointerTables::add(const std::vector<std::int32_t>& buffers) {
  const std::size_t first = buffers_.size();
  buffers_.insert(buffers_.end(), buffers.begin(), buffers.end());
  return static_cast<std::int64_t>(first * sizeof(Address));
}

void PointerTables::fill(const std::vector<Address>& buffers, const Stream& stream, const std::string& what) {
  if (buffers_.empty()) return;
  std::vector<Address> pointers;
  for (const std::int32_t buffer : buffers_) pointers.push_back(buffers[static_cast<std::size_t>(buffer)]);
  const auto bytes = static_cast<std::int64_t>(pointers.size() * sizeof(Address));
  if (memory_.bytes() == 0) memory_ = cuda::DeviceMemory(bytes, "the pointer tables " + what);
  stream.copy_in(memory_.address(), pointers.data(), bytes, "for the pointer tables " + what);
  stream.synchronise("for the pointer tables " + what);
}

void HostFailure::set(const std::string& message) {
  const std::lock_guard lock(mutex_);
  if (message_.empty()) message_ = message;
}

void HostFailure::rethrow() {
  const std::lock_guard lock(mutex_);
  if (message_.empty()) return;
  throw RuntimeFailure(std::exchange(message_, {}));
}

std::vector<std::unique_ptr<CudaLaunch>> make_cuda_launches(const Program& program,
                                                            std::span<const CudaKernel> kernels,
                                                            CudaLibraries& libraries, PointerTables& tables,
                                                            HostFailure& failure) {
  std::vector<std::unique_ptr<CudaLaunch>> launches;
  std::size_t kernel = 0;
  for (std::size_t i = 0; i < program.launches.size(); ++i) {
    const codegen::Launch& launch = program.launches[i];
    if (const auto* call = std::get_if<KernelLaunch>(&launch)) {
      const CudaKernel& own = kernels[kernel++];
      if (call->is_table()) {
        launches.push_back(std::make_unique<TableCall>(*call, own, tables));
      } else {
        launches.push_back(std::make_unique<KernelCall>(*call, own));
      }
    } else if (const auto* gemm = std::get_if<GemmLaunch>(&launch)) {
      launches.push_back(std::make_unique<GemmCall>(program, *gemm, libraries));
    } else if (const auto* attention = std::get_if<AttentionLaunch>(&launch)) {
      launches.push_back(std::make_unique<AttentionCall>(program, *attention, libraries));
    } else {
      const auto& host = std::get<HostLaunch>(launch);
      const std::optional<ir::FourierRows> rows = fourier_rows(program, host);
      const codegen::DeviceFft* const fft = rows ? libraries.fft(*rows) : nullptr;
      if (fft != nullptr) {
        launches.push_back(std::make_unique<FftCall>(host, *fft, *rows,
                                                     is_read_behind(program, i, host.operands[0].buffer)));
      } else {
        launches.push_back(std::make_unique<OpCall>(program, host, failure));
      }
    }
  }
  return launches;
}

}  // namespace rewire::runtime
