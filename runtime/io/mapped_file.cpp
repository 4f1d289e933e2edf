#include "runtime/io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <system_error>

#include "ir/error.h"
#include "ir/printable.h"

namespace rewire::runtime {

MappedFile::MappedFile(const std::string& path)
    : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  const auto fail = [&] {
    user_error("cannot read {}: {}", visible(path), std::generic_category().message(errno));
  };
  if (!file_ || ::fstat(file_.get(), &status_) != 0) fail();
  if (!S_ISREG(status_.st_mode)) user_error("{}: it is not a regular file", visible(path));
  if (status_.st_size == 0) return;
  void* const pages =
      ::mmap(nullptr, static_cast<std::size_t>(status_.st_size), PROT_READ, MAP_SHARED, file_.get(), 0);
  if (pages == MAP_FAILED) fail();
  data_ = static_cast<const std::byte*>(pages);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), static_cast<std::size_t>(status_.st_size));
}

bool MappedFile::is_unchanged() const {
  struct stat now{};
  return ::fstat(file_.get(), &now) == 0 && now.st_size == status_.st_size &&
         now.st_mtim.tv_sec == status_.st_mtim.tv_sec && now.st_mtim.tv_nsec == status_.st_mtim.tv_nsec;
}

}  // namespace rewire::runtime
