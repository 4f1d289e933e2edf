#include "runtime/exec/cuda/op_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "ir/ops/op_info.h"
#include "runtime/device/log.h"
#include "runtime/exec/cpu/host_op.h"
#include "runtime/exec/cpu/op_calls.h"
#include "runtime/exec/memory_plan.h"
#include "runtime/io/host_tensor.h"

namespace rewire::runtime {

extern const CudaOp kCudaRfft, kCudaIrfft, kCudaAttention, kCudaAttentionGrad, kCudaConv2d,
    kCudaConv2dInputGrad, kCudaConv2dWeightGrad;

namespace {

using codegen::OpCall;
using codegen::Program;
using cuda::Address;
using cuda::Stream;

constexpr std::array kCudaOps = {
    &kCudaRfft,   &kCudaIrfft,           &kCudaAttention,       &kCudaAttentionGrad,
    &kCudaConv2d, &kCudaConv2dInputGrad, &kCudaConv2dWeightGrad};

HostTensor aligned_bytes(std::int64_t count) {
  return HostTensor({ir::DType::u8, {std::max<std::int64_t>(count, 64)}});
}

/// Computes an op on the host. It copies all buffers that the op touches, whole, to pinned memory and back.
/// The CPU's library, or else the evaluator's function, computes on one thread.
class HostOpCall final : public CudaLaunch {
 public:
  HostOpCall(const Program& program, const OpCall& call, HostFailure& failure)
      : op_(program, call),
        library_(make_library_launch(program, call)),
        failure_(failure),
        what_(fmt::format("of the op '{}'", ir::describe(call.op))) {
    if (library_ != nullptr) {
      scratch_ = aligned_bytes(library_->scratch_bytes());
      shared_ = aligned_bytes(library_->shared_bytes());
      library_->lend(shared_.bytes().data());
    }
    const BufferUse use = buffers_of(codegen::Launch(call));
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
    stream.call(&HostOpCall::run, const_cast<HostOpCall*>(this), what_);
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
    auto& call = *static_cast<HostOpCall*>(self);
    try {
      call.compute();
    } catch (const std::exception& error) {
      call.failure_.set(fmt::format("{}: {}", call.what_.substr(3), error.what()));
    }
  }

  void compute() {
    if (library_ == nullptr) {
      op_.run(pointers_);
      return;
    }
    library_->bind(pointers_);
    for (std::int64_t task = 0; task < library_->tasks(); ++task)
      library_->run(task, scratch_.bytes().data());
  }

  HostOp op_;
  std::unique_ptr<CpuLaunch> library_;  // null: op_ computes it
  HostTensor scratch_, shared_;
  HostFailure& failure_;
  std::string what_;
  std::vector<Copy> copies_;
  BufferPointers pointers_;
};

}  // namespace

void tell_of_host(const ir::Op& op, const std::string& why) {
  write_log_once(LogLevel::info, fmt::format("host's {}", ir::op_info(op.code).name),
                 fmt::format("{}: {}, so the host computes it and the device waits", ir::describe(op), why));
}

std::unique_ptr<CudaLaunch> make_op_launch(const Program& program, std::size_t launch,
                                           CudaLibraries& libraries, HostFailure& failure) {
  const auto& call = std::get<OpCall>(program.launches[launch]);
  const auto row = std::ranges::find(kCudaOps, call.op.code, &CudaOp::code);
  // For transforms, lowering has already reported which library is missing.
  if (row == kCudaOps.end() && ir::op_info(call.op.code).op_class != ir::OpClass::spectral)
    tell_of_host(call.op, "no library computes it on a GPU");
  std::unique_ptr<CudaLaunch> made =
      row == kCudaOps.end() ? nullptr : (*row)->make(program, launch, libraries);
  return made != nullptr ? std::move(made) : std::make_unique<HostOpCall>(program, call, failure);
}

}  // namespace rewire::runtime
