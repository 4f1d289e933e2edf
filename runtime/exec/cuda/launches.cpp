#include "runtime/exec/cuda/launches.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/cost.h"
#include "ir/error.h"
#include "runtime/exec/cuda/op_calls.h"

namespace rewire::runtime {
namespace {

using codegen::GemmLaunch;
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

/// One launch for all members of a table. Each member has blocks of its own.
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

/// A product by cuBLASLt, in one call or in one call per index of its outer axes.
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
    } else {
      launches.push_back(make_op_launch(program, i, libraries, failure));
    }
  }
  return launches;
}

}  // namespace rewire::runtime
