#include "runtime/device/probe.h"

#include <fmt/format.h>
#include <llvm/Config/llvm-config.h>
#include <oneapi/dnnl/dnnl_version.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "codegen/cuda/shared_library.h"
#include "ir/error.h"
#include "runtime/device/cuda/device.h"
#include "runtime/device/process.h"

namespace rewire::runtime {
namespace {

/// Returns the value of the first line "key : value" of /proc/cpuinfo.
std::string cpuinfo(std::string_view key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with(key) && colon != std::string::npos) return line.substr(colon + 2);
  }
  return {};
}

CudaLibrary probe_library(const std::string& name, const std::string& variable,
                          const std::vector<std::string>& sonames) {
  const codegen::cuda::SharedLibrary library({name, variable, sonames});
  return {name, library.path(), library.problem()};
}

void probe_devices(CudaFacts& facts) {
  try {
    cuda::driver().version("", &facts.driver_version);
    for (int ordinal = 0; ordinal < cuda::device_count(); ++ordinal) {
      const cuda::DeviceFacts device = cuda::device_facts(ordinal);
      facts.devices.push_back(fmt::format("{}, sm_{}, {} multiprocessors, {:.1f} GiB", device.name,
                                          device.arch, device.multiprocessors,
                                          static_cast<double>(device.memory_bytes) / (1 << 30)));
    }
  } catch (const RuntimeFailure& failure) {
    facts.driver_fault = failure.what();
  }
}

}  // namespace

ProcessorFacts probe_processor() {
  ProcessorFacts facts;
  facts.name = cpuinfo("model name");
  facts.cores = usable_cores();
  facts.memory_bytes = total_memory_bytes();
  const std::string flags = " " + cpuinfo("flags") + " ";
  for (const char* name : {"avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16"}) {
    if (flags.find(fmt::format(" {} ", name)) != std::string::npos) facts.instructions.emplace_back(name);
  }
  return facts;
}

std::vector<LibraryVersion> built_with() {
  return {{"LLVM", LLVM_VERSION_STRING},
          {"oneDNN", fmt::format("{}.{}.{}", DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH)}};
}

CudaFacts probe_cuda() {
  CudaFacts facts;
  facts.driver_fault = cuda::driver_missing().value_or("");
  if (facts.driver_fault.empty()) probe_devices(facts);
  facts.toolkit = {
      probe_library("NVRTC", "REWIRE_NVRTC", {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}),
      probe_library("cuBLASLt", "REWIRE_CUBLASLT",
                    {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}),
      probe_library("cuFFT", "REWIRE_CUFFT", {"libcufft.so.12", "libcufft.so.11", "libcufft.so"}),
      probe_library("cuDNN", "REWIRE_CUDNN", {"libcudnn.so.9"})};
  return facts;
}

}  // namespace rewire::runtime
