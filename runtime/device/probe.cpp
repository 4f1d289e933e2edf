#include "runtime/device/probe.h"

#include <fmt/format.h>
#include <llvm/Config/llvm-config.h>
#include <oneapi/dnnl/dnnl_version.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

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

}  // namespace rewire::runtime
