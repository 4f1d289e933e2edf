// Probes this machine: the processor, memory and libraries that Rewire can use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rewire::runtime {

struct ProcessorFacts {
  std::string name;                       // as the kernel spells it
  std::vector<std::string> instructions;  // sets that kernels may be made for: avx2, fma, avx512f, …
  int cores = 1;                          // cores that this process may use
  std::int64_t memory_bytes = 0;          // memory that it could use if it were alone
};
ProcessorFacts probe_processor();

/// A library that this binary was built with: {"LLVM", "19.1.7"}, …
struct LibraryVersion {
  std::string name, version;
};
std::vector<LibraryVersion> built_with();

struct CudaLibrary {
  std::string name;     // "NVRTC"
  std::string path;     // the file that was opened; "": none
  std::string problem;  // why it cannot be used; "": it can
};
struct CudaFacts {
  std::string driver_fault;          // why there is no driver; "" if there is one
  int driver_version = 0;            // from cuDriverGetVersion: 13000 for 13.0
  std::vector<std::string> devices;  // "NVIDIA H100 80GB HBM3, sm_90, 132 multiprocessors, 79.1 GiB"
  std::vector<CudaLibrary> toolkit;  // libraries that --device cuda needs besides the driver
};
/// Opens the driver and the libraries as --device cuda does. Makes no context and loads no kernel.
CudaFacts probe_cuda();

}  // namespace rewire::runtime
