#include "codegen/library/cudnn_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ir/error.h"

namespace rewire::codegen::cudnn {

std::string version_text(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Functions::Functions() {
  file.find(version, "cudnnGetVersion");
  file.find(made_for, "cudnnGetCudartVersion");
  file.find(status_name, "cudnnGetErrorString");
  file.find(last_error, "cudnnGetLastErrorString");
  file.find(create, "cudnnCreate");
  file.find(destroy, "cudnnDestroy");
  file.find(set_stream, "cudnnSetStream");
  file.find(create_descriptor, "cudnnBackendCreateDescriptor");
  file.find(destroy_descriptor, "cudnnBackendDestroyDescriptor");
  file.find(finalize, "cudnnBackendFinalize");
  file.find(set_attribute, "cudnnBackendSetAttribute");
  file.find(get_attribute, "cudnnBackendGetAttribute");
  file.find(execute, "cudnnBackendExecute");
  if (!file.problem().empty()) return;
  if (version() < kOldest)
    file.refuse(fmt::format("cuDNN in {} is {}; Rewire needs {} or newer: {}", file.path(),
                            version_text(version()), version_text(kOldest),
                            cuda::how_to_install(cuda::kCudnn, cuda::driver_cuda())));
  if (const int driver = cuda::driver_cuda();
      driver != 0 && driver < cuda::kDriverOf13 && made_for() >= 13000)
    file.refuse(fmt::format("cuDNN in {} is for CUDA 13, which needs driver {} or newer: {}", file.path(),
                            cuda::kBranchOf13, cuda::how_to_install(cuda::kCudnn, driver)));
}

std::string words(Status status) {
  constexpr std::size_t kMost = 240;
  const Functions& functions = Library::any();
  std::array<char, 1024> text{};
  functions.last_error(text.data(), text.size() - 1);
  std::string said(text.data());
  std::ranges::replace(said, '\n', ' ');
  if (said.size() > kMost) said = said.substr(0, kMost) + "…";
  return said.empty() ? functions.status_name(status)
                      : fmt::format("{} ({})", functions.status_name(status), said);
}

void check(Status status, const char* call, const std::string& what) {
  if (status != 0) throw RuntimeFailure(fmt::format("{} for {}: {}", call, what, words(status)));
}

bool is_refusal(Status status) {
  return status / 1000 == 3;
}

}  // namespace rewire::codegen::cudnn
