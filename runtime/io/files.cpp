// Reading whole files, and replacing files atomically, on POSIX calls.
#include "runtime/io/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "codegen/files/replacing_file.h"
#include "ir/error.h"
#include "ir/printable.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;

using codegen::Descriptor;
using codegen::ReplacingFile;

/// A pipe has as many bytes as its writer sends. A device such as /dev/zero has no end,
/// and nothing that is read here.
constexpr std::size_t kMostOfPipe = std::size_t{1} << 31, kMostOfDevice = std::size_t{1} << 24;

std::string reason(int error) {
  return std::generic_category().message(error);
}

std::string parent_folder(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

/// Returns true for a link of another user in a folder where anybody may create one, such as /tmp. Linux
/// does not follow it either (fs.protected_symlinks).
bool is_laid_by_others(const std::string& link, const struct stat& status) {
  struct stat folder{};
  if (status.st_uid == ::geteuid() || ::stat(parent_folder(link).c_str(), &folder) != 0) return false;
  const mode_t shared = S_ISVTX | S_IWOTH;
  return (folder.st_mode & shared) == shared && folder.st_uid != status.st_uid;
}

/// Returns the file that `path` leads to: the end of a chain of links, or `path` itself
/// if nothing exists there yet.
std::string follow_links(const std::string& path) {
  constexpr int kMostLinks = 40;
  std::string file = path;
  for (int links = 0; links < kMostLinks; ++links) {
    struct stat status{};
    if (::lstat(file.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) return file;
    if (is_laid_by_others(file, status))
      user_error("cannot write {}: {} is a link that belongs to user {}", path, file, status.st_uid);
    std::error_code error;
    const fs::path target = fs::read_symlink(file, error);
    if (error) return file;
    file = (fs::path(file).parent_path() / target).string();
  }
  user_error("cannot write {}: {}", path, reason(ELOOP));
}

/// Returns S_IFREG …; 0 if nothing is there or its type cannot be read: opening it then reports why.
mode_t file_type_at(const FilePlace& place) {
  if (place.is_below()) {
    const std::optional<struct stat> status = status_of(place);
    return status ? status->st_mode & S_IFMT : 0;
  }
  struct stat status{};
  return ::stat(place.path().c_str(), &status) == 0 ? status.st_mode & S_IFMT : 0;
}

}  // namespace

std::vector<std::byte> read_file(const FilePlace& place, std::size_t most) {
  const std::string& path = place.path();
  const auto fail = [&path] { user_error("cannot read {}: {}", path, reason(errno)); };
  const Descriptor file = open_place(place, O_RDONLY);
  if (!file) fail();
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) fail();
  if (!place.is_of_user() && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
    user_error("cannot read {}: it is a pipe or a device, not a file", path);
  if (!S_ISREG(status.st_mode))
    most = std::min(most, S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode) ? kMostOfDevice : kMostOfPipe);
  const auto too_large = [&] { user_error("cannot read {}: it is larger than {} bytes", path, most); };
  if (static_cast<std::size_t>(status.st_size) > most) too_large();
  // st_size is only a hint: it is 0 for pipes and /proc. One more byte shows the end without growing.
  constexpr std::size_t kLeastRoom = 4096;
  const std::size_t room = std::max(static_cast<std::size_t>(status.st_size) + 1, kLeastRoom);
  std::vector<std::byte> bytes;
  try {
    bytes.resize(room);
  } catch (const std::exception&) {  // bad_alloc or length_error: a sparse or absurd file
    user_error("cannot read {}: its {} bytes do not fit in memory", path, status.st_size);
  }
  std::size_t size = 0;
  while (true) {
    if (size == bytes.size()) bytes.resize(bytes.size() * 2);
    const ssize_t count = ::read(file.get(), bytes.data() + size, bytes.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail();
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
    if (size > most) too_large();
  }
  bytes.resize(size);
  return bytes;
}

AtomicFile::AtomicFile(const FilePlace& place) : path_(place.path()) {
  const FilePlace target = place.is_below() ? place : FilePlace(follow_links(path_));
  if (const mode_t type = file_type_at(target); type != 0 && type != S_IFREG) {
    if (place.is_below() && type != S_IFDIR)
      user_error("cannot write {}: it is a pipe or a device, not a file", path_);
    device_ = Descriptor(::open(target.path().c_str(), O_WRONLY | O_CLOEXEC));  // a folder: "Is a directory"
    if (!device_) fail(errno);
    return;
  }
  NameInFolder at = folder_of(target);
  if (!at.folder) fail(errno);
  folder_ = std::move(at.folder);
  file_ = std::make_unique<ReplacingFile>(folder_.get(), at.name, 0666);
  if (file_->error() != 0) fail(file_->error());
}

AtomicFile::~AtomicFile() = default;

void AtomicFile::fail(int error) const {
  user_error("cannot write {}: {}", path_, reason(error));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  digest_.update(bytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (device_ && !codegen::write_all(device_.get(), text)) fail(errno);
  if (file_ && !file_->write(text)) fail(file_->error());
}

void AtomicFile::commit() {
  if (file_ && !file_->commit(ReplacingFile::Durability::synced)) fail(file_->error());
  if (!device_) return;
  // Pipes and some devices cannot be synced and return EINVAL; they have nothing to lose either.
  if (::fsync(device_.get()) != 0 && errno != EINVAL && errno != EROFS) fail(errno);
  if (::close(device_.release()) != 0) fail(errno);
}

void write_file_atomically(const FilePlace& place, std::span<const std::byte> bytes) {
  AtomicFile file(place);
  file.write(bytes);
  file.commit();
}

void write_file_atomically(const FilePlace& place, std::string_view text) {
  write_file_atomically(place, std::as_bytes(std::span(text.data(), text.size())));
}

bool make_folder(const FilePlace& place) {
  const std::string& path = place.path();
  if (place.is_below()) {
    const NameInFolder at = folder_of(place);
    const bool made = at.folder && ::mkdirat(at.folder.get(), at.name.c_str(), 0777) == 0;
    const int cause = errno;
    if (!made && (cause != EEXIST || !is_folder(place)))
      user_error("cannot make the folder {}: {}", path, reason(cause));
    if (made) sync_folder(parent_folder(path));
    return made;
  }
  std::vector<fs::path> missing;
  std::error_code error;
  // A trailing slash is another step of the path, but no other folder.
  for (fs::path at = path; !at.empty() && !fs::exists(at, error); at = at.parent_path())
    if (at.has_filename()) missing.push_back(at);
  const bool made = fs::create_directories(path, error);
  if (error) user_error("cannot make the folder {}: {}", path, error.message());
  for (const fs::path& folder : missing) sync_folder(folder.parent_path().string());
  return made;
}

void sync_folder(const std::string& path) {
  const codegen::Descriptor folder(
      ::open(path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) ::fsync(folder.get());
}

void require_writable(const FilePlace& place) {
  const mode_t type = file_type_at(place);
  if (!place.is_below() && (type == S_IFIFO || type == S_IFSOCK))
    return;  // opening one of them has side effects
  const AtomicFile probe(place);
}

std::string printable(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  const std::string_view kept = cut(text, kLongest);
  return visible(kept) + (kept.size() < text.size() ? "…" : "");
}

}  // namespace rewire::runtime
