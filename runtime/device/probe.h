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

}  // namespace rewire::runtime
