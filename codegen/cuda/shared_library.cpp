#include "codegen/cuda/shared_library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>

#include "codegen/files/trusted.h"
#include "ir/error.h"

namespace rewire::codegen::cuda {
namespace {

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

int driver_cuda() {
  static const int version = [] {
    SharedLibrary driver(kDriver);
    int (*get)(int*) = nullptr;
    driver.find(get, "cuDriverGetVersion");
    int found = 0;
    return get != nullptr && get(&found) == 0 ? found : 0;
  }();
  return version;
}

SharedLibrary::SharedLibrary(const LibraryNames& names) : name_(names.name) {
  const char* chosen = std::getenv(names.variable.c_str());
  if (chosen != nullptr && *chosen != '\0')
    open_named(names.variable, chosen);
  else
    open_found(names);
}

void SharedLibrary::open_named(const std::string& variable, const std::string& chosen) {
  std::string why;
  try {
    path_ = trusted_path(chosen);
    handle_.reset(open(path_));
    if (handle_ == nullptr) why = ::dlerror();
  } catch (const UserError& error) {
    why = error.what();
  }
  if (handle_ == nullptr)
    problem_ = fmt::format("{} is '{}', which cannot be loaded: {}", variable, chosen, why);
  else if (path_.find('/') == std::string::npos)
    path_ = path_of(handle_.get());
}

void SharedLibrary::open_found(const LibraryNames& names) {
  const bool has_root = std::getenv("REWIRE_CUDA_ROOT") != nullptr;
  const bool by_loader = names.wheel_12.empty() && !has_root;
  const int driver = names.wheel_12.empty() ? 0 : driver_cuda();
  std::vector<LibraryFile> files;
  if (!by_loader) files = library_files(names, driver);
  std::vector<std::string> refusals;
  for (const LibraryFile& file : files) {
    const std::string version = version_text(file.version);
    std::string why = file.refusal;
    if (handle_ == nullptr && why.empty()) {
      try {
        handle_.reset(open(file.guessed ? trusted_path(file.path) : file.path));
        if (handle_ == nullptr) why = ::dlerror();
      } catch (const UserError& error) {
        why = error.what();
      }
      if (handle_ != nullptr) {
        path_ = file.path;
        lacks_ = file.lacks;
        continue;
      }
    }
    if (!file.lacks.empty() && why.empty()) why = fmt::format("without {}", file.lacks.front());
    others_.push_back(file.path);
    if (!version.empty() || !why.empty())
      others_.back() += fmt::format(" ({}{}{})", version, version.empty() || why.empty() ? "" : ", ", why);
  }
  if (handle_ == nullptr && !has_root) {
    for (const std::string& soname : {names.soname_13, names.soname_12}) {
      const bool runs =
          soname != names.soname_13 || soname == names.soname_12 || driver == 0 || driver >= kDriverOf13;
      if (handle_ == nullptr && runs) handle_.reset(open(soname));
    }
    if (handle_ != nullptr) path_ = path_of(handle_.get());
  }
  if (handle_ != nullptr) return;
  const std::string& soname = driver >= kDriverOf13 ? names.soname_13 : names.soname_12;
  problem_ = others_.empty() ? fmt::format("{} ({}) was not found", name_, soname)
                             : fmt::format("{} was found only as {}", name_, fmt::join(others_, ", "));
  problem_ += fmt::format("; {}", how_to_install(names, driver));
}

void SharedLibrary::refuse(const std::string& why) {
  if (problem_.empty()) problem_ = why;
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
