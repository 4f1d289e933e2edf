#include "runtime/device/probe.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <llvm/Config/llvm-config.h>
#include <oneapi/dnnl/dnnl_version.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>

namespace rewire::runtime {
namespace {

// A library that was opened stays mapped: some allocate as they load and never free, which would be a leak
// once they are gone.
constexpr int kOpen = RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE;

struct CloseLibrary {
  void operator()(void* handle) const { ::dlclose(handle); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

/// The value of the first line "key : value" of /proc/cpuinfo.
std::string cpuinfo(std::string_view key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with(key) && colon != std::string::npos) return line.substr(colon + 2);
  }
  return {};
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof(set), &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

std::string path_of(void* handle) {
  link_map* map = nullptr;
  return ::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr ? map->l_name : "";
}

/// Under the names that the last toolkits gave it, in the loader's path and the toolkit's folders.
CudaLibrary find_cuda_library(const std::string& name, const std::vector<std::string>& versions) {
  std::vector<std::string> folders = {""};
  if (const char* home = std::getenv("CUDA_HOME")) folders.push_back(std::string(home) + "/lib64/");
  folders.emplace_back("/usr/local/cuda/lib64/");
  for (const std::string& folder : folders) {
    for (const std::string& version : versions) {
      const Library library(::dlopen(fmt::format("{}{}.so.{}", folder, name, version).c_str(), kOpen));
      if (library != nullptr) return {name, path_of(library.get())};
    }
  }
  return {name, ""};
}

template <class Function>
Function* symbol(const Library& library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library.get(), name));
}

void probe_driver(CudaFacts& facts) {
  const Library driver(::dlopen("libcuda.so.1", kOpen));
  if (driver == nullptr) {
    facts.driver_fault = "libcuda.so.1 is not installed";
    return;
  }
  const auto init = symbol<int(unsigned)>(driver, "cuInit");
  const auto version = symbol<int(int*)>(driver, "cuDriverGetVersion");
  const auto count = symbol<int(int*)>(driver, "cuDeviceGetCount");
  if (init == nullptr || version == nullptr || count == nullptr) {
    facts.driver_fault = fmt::format("{} is no CUDA driver", path_of(driver.get()));
    return;
  }
  version(&facts.driver_version);
  if (const int error = init(0); error != 0) {
    facts.driver_fault = fmt::format("cuInit fails with error {}", error);
  } else {
    count(&facts.devices);
  }
}

}  // namespace

ProcessorFacts probe_processor() {
  ProcessorFacts facts;
  facts.name = cpuinfo("model name");
  facts.cores = usable_cores();
  facts.memory_bytes = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
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
  probe_driver(facts);
  const std::vector<std::string> toolkit_versions = {"13", "12"};
  for (const char* name : {"libnvrtc", "libcublasLt"})
    facts.toolkit.push_back(find_cuda_library(name, toolkit_versions));
  facts.toolkit.push_back(find_cuda_library("libcufft", {"12", "11"}));
  facts.toolkit.push_back(find_cuda_library("libcusolver", {"12", "11"}));
  facts.toolkit.push_back(find_cuda_library("libcudnn", {"9"}));
  facts.toolkit.push_back(find_cuda_library("libnccl", {"2"}));
  return facts;
}

}  // namespace rewire::runtime
