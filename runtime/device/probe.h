// What this machine has and lacks: the processor, memory and libraries that Rewire can use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rewire::runtime {

struct ProcessorFacts {
  std::string name;                       // as the kernel spells it
  std::vector<std::string> instructions;  // of those that kernels are made for: avx2, fma, avx512f, …
  int cores = 1;                          // that this process may run on
  std::int64_t memory_bytes = 0;
};
ProcessorFacts probe_processor();

/// The version of each library that this binary was built with: {"LLVM", "19.1.7"}, …
struct LibraryVersion {
  std::string name, version;
};
std::vector<LibraryVersion> built_with();

struct CudaLibrary {
  std::string name;  // "libnvrtc"
  std::string path;  // where it was found; "" if it was not
};
struct CudaFacts {
  std::string driver_fault;  // why there is no driver; "" if there is one
  int driver_version = 0;    // as cuDriverGetVersion says it: 13000 for 13.0
  int devices = 0;
  std::vector<CudaLibrary> toolkit;
};
/// Opens libcuda and looks for the toolkit's libraries in the loader's path, $CUDA_HOME/lib64 and
/// /usr/local/cuda/lib64. Loads no kernel and touches no device.
CudaFacts probe_cuda();

}  // namespace rewire::runtime
