#include "codegen/cuda/shared_library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "codegen/files/trusted.h"
#include "ir/error.h"

namespace rewire::codegen::cuda {
namespace {

/// Returns the folders to search, each with a slash at its end; "" is the loader's own path.
std::vector<std::string> library_folders() {
  namespace fs = std::filesystem;
  std::vector<std::string> toolkits;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator("/usr/local", ignored)) {
    if (entry.path().filename().string().starts_with("cuda")) toolkits.push_back(entry.path().string());
  }
  std::sort(toolkits.rbegin(), toolkits.rend());
  if (const char* home = std::getenv("CUDA_HOME"); home != nullptr && *home != '\0')
    toolkits.insert(toolkits.begin(), home);
  std::vector<std::string> folders = {""};
  for (const std::string& toolkit : toolkits) {
    for (const char* folder : {"/lib64/", "/lib/"}) folders.push_back(toolkit + folder);
  }
  return folders;
}

/// Opens a library, which stays mapped after it is closed. Some libraries allocate as they load and never
/// free; after unmapping, that would be a leak.
void* open(const std::string& path) {
  return ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

/// Returns the file that a variable names, with links resolved, if no other user can have written it. Throws
/// UserError if one can, or if it is a pipe or a device. A name without a slash is left to the loader, which
/// searches the system's folders.
std::string trusted_path(const std::string& chosen) {
  if (chosen.find('/') == std::string::npos) return chosen;
  const TrustedFile library = open_trusted(chosen, O_RDONLY | O_NONBLOCK | O_NOCTTY, "the library");
  struct stat status{};
  if (::fstat(library.file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    user_error("it is not a regular file");  // the loader would wait for a pipe
  return library.path;
}

std::string path_of(void* handle) {
  link_map* map = nullptr;
  return ::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr ? map->l_name : "";
}

}  // namespace

SharedLibrary::SharedLibrary(const LibraryNames& names) : name_(names.name) {
  const char* chosen = std::getenv(names.variable.c_str());
  if (chosen != nullptr && *chosen != '\0') {
    std::string why;
    try {
      handle_.reset(open(trusted_path(chosen)));
      if (handle_ == nullptr) why = ::dlerror();
    } catch (const UserError& error) {
      why = error.what();
    }
    if (handle_ == nullptr)
      problem_ = fmt::format("{} is '{}', which cannot be loaded: {}", names.variable, chosen, why);
  } else {
    for (const std::string& folder : library_folders()) {
      for (const std::string& soname : names.sonames) {
        if (handle_ == nullptr) handle_.reset(open(folder + soname));
      }
    }
    if (handle_ == nullptr)
      problem_ = fmt::format("{} was not found; install it or set {} to its path", name_, names.variable);
  }
  if (handle_ != nullptr) path_ = path_of(handle_.get());
}

std::optional<std::string> SharedLibrary::missing() const {
  return problem_.empty() ? std::nullopt : std::optional(problem_);
}

void SharedLibrary::require() const {
  if (!problem_.empty()) throw UserError(problem_);
}

void SharedLibrary::open_beside(const std::string& soname) const {
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  if (!folder.empty()) open((folder / soname).string());
}

void SharedLibrary::Close::operator()(void* handle) const {
  ::dlclose(handle);
}

void* SharedLibrary::address(const char* symbol) {
  void* const found = handle_ == nullptr ? nullptr : ::dlsym(handle_.get(), symbol);
  if (found == nullptr && problem_.empty())
    problem_ = fmt::format("{} in {} has no {}; install a newer version", name_, path_, symbol);
  return found;
}

}  // namespace rewire::codegen::cuda
