#include "runtime/io/appended_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "ir/error.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

[[noreturn]] void fail_to_append(const std::string& path) {
  user_error("cannot write {}: {}", path, std::generic_category().message(errno));
}

}  // namespace

AppendedFile::AppendedFile(const FilePlace& place, std::int64_t bytes, std::string_view holds)
    : path_(place.path()), file_(open_place(place, O_WRONLY | O_CREAT, 0666)), bytes_(bytes) {
  if (!file_) fail_to_append(path_);
  struct stat status{};
  if (::fstat(file_.get(), &status) != 0) fail_to_append(path_);
  if (!S_ISREG(status.st_mode)) user_error("{} is not a regular file: {}", path_, holds);
  if (status.st_size < bytes) {
    user_error("{} has {} bytes, fewer than the {} that the checkpoint records: it was truncated", path_,
               status.st_size, bytes);
  }
  // A checkpoint counts the file's bytes, which is useless if a loss of power removes the file's name.
  if (status.st_size == 0) sync_folder(std::filesystem::path(path_).parent_path().string());
  if (::ftruncate(file_.get(), bytes) != 0 || ::lseek(file_.get(), bytes, SEEK_SET) < 0)
    fail_to_append(path_);
}

void AppendedFile::append(std::string_view piece) {
  if (!codegen::write_all(file_.get(), piece)) {
    const int cause = errno;
    // Removes half a piece, so that readers only see whole ones.
    if (::ftruncate(file_.get(), bytes_) == 0) ::lseek(file_.get(), bytes_, SEEK_SET);
    errno = cause;
    fail_to_append(path_);
  }
  bytes_ += static_cast<std::int64_t>(piece.size());
}

std::int64_t AppendedFile::sync() {
  if (::fsync(file_.get()) != 0 && errno != EINVAL) fail_to_append(path_);
  return bytes_;
}

}  // namespace rewire::runtime
