#include "codegen/files/replacing_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <random>
#include <utility>

namespace rewire::codegen {
namespace {

/// The number of names to try. If names with 64 random bits are taken, somebody takes them on purpose, or
/// they are truncated.
constexpr int kTries = 64;

std::string descriptor_path(int descriptor) {
  return fmt::format("/proc/self/fd/{}", descriptor);
}

std::uint64_t random_bits() {
  std::uint64_t bits = 0;
  // GRND_INSECURE never waits. Even a system that has just started returns bits that are random enough for a
  // name.
  if (::getrandom(&bits, sizeof bits, GRND_INSECURE) != sizeof bits)
    bits = std::uint64_t{std::random_device{}()} << 32 | std::random_device{}();
  return bits;
}

}  // namespace

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

std::string ReplacingFile::temporary_name() {
  return fmt::format(".rewire-{:016x}.tmp", random_bits());
}

ReplacingFile::ReplacingFile(int folder, std::string name, mode_t mode)
    : folder_(folder), name_(std::move(name)) {
  // An unnamed file (O_TMPFILE) later gets its name through /proc.
  if (::access("/proc/self/fd", X_OK) == 0)
    file_ = Descriptor(::openat(folder_, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, mode));
  for (int i = 0; i < kTries && !file_; ++i) {
    temporary_ = temporary_name();
    file_ = Descriptor(
        ::openat(folder_, temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    if (!file_ && errno != EEXIST) break;
  }
  if (!file_) {
    fail();
    temporary_.clear();
  }
}

ReplacingFile::~ReplacingFile() {
  if (!temporary_.empty()) ::unlinkat(folder_, temporary_.c_str(), 0);
}

bool ReplacingFile::fail() {
  if (error_ == 0) error_ = errno;
  return false;
}

bool ReplacingFile::write(std::string_view bytes) {
  return error_ == 0 && (write_all(file_.get(), bytes) || fail());
}

bool ReplacingFile::give_name() {
  for (int i = 0; i < kTries && temporary_.empty(); ++i) {
    std::string name = temporary_name();
    if (::linkat(AT_FDCWD, descriptor_path(file_.get()).c_str(), folder_, name.c_str(), AT_SYMLINK_FOLLOW) ==
        0) {
      temporary_ = std::move(name);
    } else if (errno != EEXIST) {
      return false;
    }
  }
  return !temporary_.empty();
}

bool ReplacingFile::commit(Durability durability) {
  const bool syncs = durability == Durability::synced;
  if (error_ != 0) return false;
  if (syncs && ::fsync(file_.get()) != 0 && errno != EINVAL && errno != EROFS) return fail();
  if (!give_name()) return fail();
  if (::close(file_.release()) != 0) return fail();
  if (::renameat(folder_, temporary_.c_str(), folder_, name_.c_str()) != 0) return fail();
  temporary_.clear();
  if (!syncs) return true;
  // The new name is durable once the folder is synced. A folder may be writable but not readable; then the
  // system syncs it in its own time.
  const Descriptor folder(::openat(folder_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return !folder || ::fsync(folder.get()) == 0 || errno == EINVAL || fail();
}

}  // namespace rewire::codegen
