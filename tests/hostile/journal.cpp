// The journal of a process: one record a change, appended in one write so that those of several processes
// stand in the order in which they happened. A record is a line of fields between tabs, then the bytes of a
// write:
//   create INODE PATH    folder INODE PATH    write INODE OFFSET SIZE    resize INODE SIZE
//   sync INODE           rename FROM TO       link INODE PATH            remove PATH
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <mutex>

#include "tests/hostile/faults.h"

namespace rewire::faults {
namespace {

std::mutex mutex;

/// Own calls, that no fault meets.
void append(const std::string& record) {
  const int kept = errno;
  const char* file = std::getenv("FAULT_JOURNAL");
  if (file != nullptr) {
    const std::lock_guard lock(mutex);
    const long descriptor =
        ::syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (::syscall(SYS_write, descriptor, record.data(), record.size()) != static_cast<long>(record.size()))
      std::abort();
    ::syscall(SYS_close, descriptor);
  }
  errno = kept;
}

std::string inode(int descriptor) {
  struct stat status{};
  ::fstat(descriptor, &status);
  return std::to_string(status.st_ino);
}

std::string inode(const std::string& path) {
  struct stat status{};
  ::lstat(path.c_str(), &status);
  return std::to_string(status.st_ino);
}

bool journals(const std::string& path) {
  return std::getenv("FAULT_JOURNAL") != nullptr && is_watched(path);
}

}  // namespace

void note_opened(int descriptor, const std::string& path, int flags, bool existed) {
  if (!journals(path)) return;
  if ((flags & O_TMPFILE) == O_TMPFILE) return append("create\t" + inode(descriptor) + "\t\n");
  if ((flags & O_CREAT) != 0 && !existed) return append("create\t" + inode(descriptor) + "\t" + path + "\n");
  if ((flags & O_TRUNC) != 0) append("resize\t" + inode(descriptor) + "\t0\n");
}

void note_written(int descriptor, const void* bytes, std::size_t count, off_t at) {
  if (!journals(path_of(descriptor))) return;
  append("write\t" + inode(descriptor) + "\t" + std::to_string(at) + "\t" + std::to_string(count) + "\n" +
         std::string(static_cast<const char*>(bytes), count));
}

void note_resized(int descriptor, off_t size) {
  if (journals(path_of(descriptor)))
    append("resize\t" + inode(descriptor) + "\t" + std::to_string(size) + "\n");
}

void note_synced(int descriptor) {
  if (journals(path_of(descriptor))) append("sync\t" + inode(descriptor) + "\n");
}

void note_folder(const std::string& path) {
  if (journals(path)) append("folder\t" + inode(path) + "\t" + path + "\n");
}

void note_renamed(const std::string& from, const std::string& to) {
  if (journals(to)) append("rename\t" + from + "\t" + to + "\n");
}

void note_linked(const std::string& path) {
  if (journals(path)) append("link\t" + inode(path) + "\t" + path + "\n");
}

void note_removed(const std::string& path) {
  if (journals(path)) append("remove\t" + path + "\n");
}

}  // namespace rewire::faults
