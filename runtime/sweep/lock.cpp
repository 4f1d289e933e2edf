#include "runtime/sweep/lock.h"

#include <fcntl.h>

#include <cerrno>
#include <span>
#include <string>
#include <system_error>

#include "codegen/files/digest.h"
#include "ir/error.h"

namespace rewire::runtime {
namespace {

// Ranges of bytes of the lock's file, which is empty: the tables', each run's, and all.
constexpr off_t kTables = 0, kFirstRun = 1, kToTheEnd = 0;

codegen::Descriptor open_lock(const std::string& folder) {
  const std::string path = folder + "/.lock";
  codegen::Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file) user_error("cannot open {}: {}", path, std::generic_category().message(errno));
  return file;
}

struct flock range(off_t begin, off_t size) {
  struct flock range{};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = begin;
  range.l_len = size;
  return range;
}

bool take(const codegen::Descriptor& file, struct flock wanted, int command, const std::string& folder) {
  while (::fcntl(file.get(), command, &wanted) != 0) {
    if (errno == EAGAIN || errno == EACCES) return false;
    if (errno != EINTR)
      user_error("cannot lock {}/.lock: {}", folder, std::generic_category().message(errno));
  }
  return true;
}

off_t place_of(std::string_view name) {
  constexpr std::size_t kDigits = 15;  // as many hexadecimal digits as an offset in a file holds
  const std::string digest = codegen::digest_hex(std::as_bytes(std::span(name)));
  return kFirstRun + static_cast<off_t>(std::stoll(digest.substr(0, kDigits), nullptr, 16));
}

}  // namespace

SweepLock SweepLock::whole(const std::string& folder) {
  codegen::Descriptor file = open_lock(folder);
  if (!take(file, range(kTables, kToTheEnd), F_OFD_SETLK, folder))
    user_error("another sweep is running in {}", folder);
  return SweepLock(std::move(file));
}

SweepLock SweepLock::of_run(const std::string& folder, std::string_view name) {
  codegen::Descriptor file = open_lock(folder);
  const struct flock wanted = range(place_of(name), 1);
  if (!take(file, wanted, F_OFD_SETLK, folder)) {
    struct flock held = wanted;
    const bool is_whole =
        ::fcntl(file.get(), F_OFD_GETLK, &held) == 0 && held.l_type != F_UNLCK && held.l_len != 1;
    if (is_whole) user_error("another sweep is running in {}", folder);
    user_error("another process trains {} in {}", name, folder);
  }
  return SweepLock(std::move(file));
}

SweepLock SweepLock::of_tables(const std::string& folder) {
  codegen::Descriptor file = open_lock(folder);
  take(file, range(kTables, 1), F_OFD_SETLKW, folder);
  return SweepLock(std::move(file));
}

}  // namespace rewire::runtime
