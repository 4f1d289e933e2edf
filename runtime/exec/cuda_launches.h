// The launches of a program as a GPU's stream takes them: kernels, library calls, and ops of the host in
// between. Each can be put on a stream that is being captured.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/library/cublas_lt.h"
#include "codegen/program.h"
#include "runtime/device/cuda/device.h"
#include "runtime/exec/cuda_kernels.h"

namespace rewire::runtime {

/// The first error of the host functions of a program, which cannot throw through the driver.
class HostFailure {
 public:
  void set(const std::string& message);
  /// RuntimeFailure if there was one; there is none then.
  void rethrow();

 private:
  std::mutex mutex_;
  std::string message_;
};

/// The libraries of an engine, opened when the first program asks. Calls of one shape share an object.
class CudaLibraries {
 public:
  const codegen::DeviceGemm& gemm(const codegen::DeviceGemmShape& shape);

 private:
  std::optional<codegen::CublasLt> blas_;
  std::map<codegen::DeviceGemmShape, codegen::DeviceGemm> gemms_;
};

class CudaLaunch {
 public:
  virtual ~CudaLaunch() = default;
  /// Memory that no other launch uses meanwhile.
  virtual std::int64_t workspace_bytes() const { return 0; }
  /// True for a library's call, which may load its kernels when it first runs: not while a stream is
  /// captured.
  virtual bool is_library_call() const { return false; }
  /// `buffers`: the address of element 0 of every buffer of the program.
  virtual void enqueue(const std::vector<cuda::Address>& buffers, cuda::Address workspace,
                       const cuda::Stream& stream) const = 0;
};

/// In the program's order; `kernels` holds one entry for each KernelLaunch. All arguments must outlive them.
std::vector<std::unique_ptr<CudaLaunch>> make_cuda_launches(const codegen::Program& program,
                                                            std::span<const CudaKernel> kernels,
                                                            CudaLibraries& libraries, HostFailure& failure);

}  // namespace rewire::runtime
