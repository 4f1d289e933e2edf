#include "runtime/exec/cuda/op_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "ir/ops/op_info.h"
#include "runtime/exec/cpu/host_op.h"
#include "runtime/exec/memory_plan.h"
#include "runtime/log.h"

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

/// Out to pinned memory, the evaluator's function, and back: all buffers that the op touches, whole.
class HostOpCall final : public CudaLaunch {
 public:
  HostOpCall(const Program& program, const OpCall& call, HostFailure& failure)
      : op_(program, call), failure_(failure), what_(fmt::format("of the op '{}'", ir::describe(call.op))) {
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

void tell_of_host(const ir::Op& op, const std::string& why) {
  write_log_once(
      LogLevel::info, fmt::format("host's {}", ir::op_info(op.code).name),
      fmt::format("{}: {}, so the host computes it while the device waits", ir::describe(op), why));
}

std::unique_ptr<CudaLaunch> make_op_launch(const Program& program, std::size_t launch,
                                           CudaLibraries& libraries, HostFailure& failure) {
  const auto& call = std::get<OpCall>(program.launches[launch]);
  const auto row = std::ranges::find(kCudaOps, call.op.code, &CudaOp::code);
  // Of transforms lowering has said which library is missing.
  if (row == kCudaOps.end() && ir::op_info(call.op.code).op_class != ir::OpClass::spectral)
    tell_of_host(call.op, "no library computes it on a GPU");
  std::unique_ptr<CudaLaunch> made =
      row == kCudaOps.end() ? nullptr : (*row)->make(program, launch, libraries);
  return made != nullptr ? std::move(made) : std::make_unique<HostOpCall>(program, call, failure);
}

}  // namespace rewire::runtime
