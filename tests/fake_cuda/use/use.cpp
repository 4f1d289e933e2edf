#include "tests/fake_cuda/use.h"

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>

#include "tests/support/build_folder.h"

namespace rewire::fake_cuda {
namespace {

std::string library_path() {
  return testing::build_folder() / REWIRE_FAKE_CUDA_LIBRARY;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> environment() {
  std::vector<std::pair<std::string, std::string>> variables;
  for (const char* name : {"REWIRE_CUDA_DRIVER", "REWIRE_NVRTC", "REWIRE_CUBLASLT", "REWIRE_CUFFT",
                           "REWIRE_CUDNN", "REWIRE_NCCL", "REWIRE_NVML"})
    variables.emplace_back(name, library_path());
  return variables;
}

const Controls& use() {
  static const Controls controls = [] {
    for (const auto& [name, value] : environment()) ::setenv(name.c_str(), value.c_str(), 1);
    void* const library = ::dlopen(library_path().c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(::dlerror());
    Controls found{};
    reinterpret_cast<void (*)(Controls*)>(::dlsym(library, "rewire_fake_cuda_controls"))(&found);
    return found;
  }();
  return controls;
}

}  // namespace rewire::fake_cuda
