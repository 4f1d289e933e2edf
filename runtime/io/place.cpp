#include "runtime/io/place.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "ir/error.h"

namespace rewire::runtime {
namespace {

using codegen::Descriptor;

constexpr int kFolderFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;

std::string system_reason(int error) {
  return std::generic_category().message(error);
}

[[noreturn]] void refuse_link(const FilePlace& place, std::string_view link) {
  user_error("{} is a link: links below {} are not followed; replace it with its target, or move it away",
             link, place.folder());
}

bool is_link_in(int folder, const std::string& name) {
  struct stat status{};
  return ::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode);
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};
using OpenFolder = std::unique_ptr<DIR, CloseFolder>;

OpenFolder list_of_folder(Descriptor folder) {
  OpenFolder list(::fdopendir(folder.get()));
  if (list != nullptr) folder.release();
  return list;
}

/// Returns the names without "." and ".."; nullopt, with errno, if the folder cannot be read to its end.
std::optional<std::vector<std::string>> listed_names(DIR* folder) {
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return std::nullopt;
  std::ranges::sort(names);
  return names;
}

void remove_in(int folder, const std::string& name) {
  if (::unlinkat(folder, name.c_str(), 0) == 0 || errno != EISDIR) return;
  const OpenFolder inner = list_of_folder(
      Descriptor(::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)));
  if (inner != nullptr) {
    for (const std::string& one : listed_names(inner.get()).value_or(std::vector<std::string>()))
      remove_in(::dirfd(inner.get()), one);
  }
  ::unlinkat(folder, name.c_str(), AT_REMOVEDIR);
}

}  // namespace

FilePlace FilePlace::of_user(std::string path) {
  FilePlace place(std::move(path));
  place.is_of_user_ = true;
  return place;
}

FilePlace FilePlace::below(std::string folder, std::string_view name) {
  if (folder.empty()) folder = ".";
  FilePlace place(folder + '/');
  place.path_ += name;
  place.folder_bytes_ = folder.size();
  return place;
}

NameInFolder folder_of(const FilePlace& place) {
  if (!place.is_below()) {
    const std::filesystem::path path = place.path();
    const std::string folder = path.parent_path().string();
    return {Descriptor(::open(folder.empty() ? "." : folder.c_str(), kFolderFlags)),
            path.filename().string()};
  }
  NameInFolder at{Descriptor(::open(place.folder().c_str(), kFolderFlags)), {}};
  std::string_view left = place.name();
  while (at.folder) {
    const std::size_t slash = left.find('/');
    at.name = left.substr(0, slash);
    if (at.name == "..") user_error("{} leads out of {}", place.path(), place.folder());
    if (slash == std::string_view::npos) break;
    Descriptor next(::openat(at.folder.get(), at.name.c_str(), kFolderFlags | O_NOFOLLOW));
    const int cause = errno;
    if (!next && is_link_in(at.folder.get(), at.name))
      refuse_link(place, std::string_view(place.path()).substr(0, place.path().size() - left.size() + slash));
    errno = cause;
    at.folder = std::move(next);
    left.remove_prefix(slash + 1);
  }
  return at;
}

Descriptor open_place(const FilePlace& place, int flags, mode_t mode) {
  flags |= O_CLOEXEC | (place.is_of_user() ? 0 : O_NONBLOCK);
  if (!place.is_below()) return Descriptor(::open(place.path().c_str(), flags, mode));
  const NameInFolder at = folder_of(place);
  if (!at.folder) return {};
  Descriptor file(::openat(at.folder.get(), at.name.c_str(), flags | O_NOFOLLOW, mode));
  const int cause = errno;
  if (!file && is_link_in(at.folder.get(), at.name)) refuse_link(place, place.path());
  errno = cause;
  return file;
}

std::optional<struct stat> status_of(const FilePlace& place) {
  struct stat status{};
  int cause = 0;
  if (place.is_below()) {
    const NameInFolder at = folder_of(place);
    if (!at.folder || ::fstatat(at.folder.get(), at.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
      cause = errno;
    if (cause == 0 && S_ISLNK(status.st_mode)) refuse_link(place, place.path());
  } else if (::stat(place.path().c_str(), &status) != 0) {
    cause = errno;
  }
  if (cause == 0) return status;
  if (cause == ENOENT || cause == ENOTDIR) return std::nullopt;
  user_error("cannot read {}: {}", place.path(), system_reason(cause));
}

bool is_file(const FilePlace& place) {
  const std::optional<struct stat> status = status_of(place);
  return status && S_ISREG(status->st_mode);
}

bool is_folder(const FilePlace& place) {
  const std::optional<struct stat> status = status_of(place);
  return status && S_ISDIR(status->st_mode);
}

std::vector<std::string> names_in(const FilePlace& folder) {
  Descriptor opened = open_place(folder, O_RDONLY | O_DIRECTORY);
  if (!opened && errno == ENOENT) return {};
  const OpenFolder list = opened ? list_of_folder(std::move(opened)) : nullptr;
  if (list != nullptr) {
    if (std::optional<std::vector<std::string>> names = listed_names(list.get())) return *std::move(names);
  }
  user_error("cannot read {}: {}", folder.path(), system_reason(errno));
}

void remove_file(const FilePlace& place) {
  const NameInFolder at = folder_of(place);
  if (at.folder) ::unlinkat(at.folder.get(), at.name.c_str(), 0);
}

void remove_tree(const FilePlace& place) {
  const NameInFolder at = folder_of(place);
  if (at.folder) remove_in(at.folder.get(), at.name);
}

void rename_at(const FilePlace& from, const FilePlace& to) {
  const NameInFolder source = folder_of(from), target = folder_of(to);
  if (!source.folder || !target.folder ||
      ::renameat(source.folder.get(), source.name.c_str(), target.folder.get(), target.name.c_str()) != 0)
    user_error("cannot rename {} to {}: {}", from.path(), to.path(), system_reason(errno));
}

void set_mode(const FilePlace& place, mode_t mode) {
  const Descriptor file = open_place(place, O_RDONLY);
  if (!file || ::fchmod(file.get(), mode) != 0)
    user_error("cannot change the mode of {}: {}", place.path(), system_reason(errno));
}

}  // namespace rewire::runtime
