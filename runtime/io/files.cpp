// Reading whole files, and replacing files atomically, on POSIX calls.
#include "runtime/io/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "ir/error.h"
#include "ir/printable.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }

 private:
  int value_;
};

std::string reason(int error) {
  return std::generic_category().message(error);
}

/// The file behind `path`: the end of a chain of links, or `path` itself where nothing stands yet.
std::string follow_links(const std::string& path) {
  std::error_code error;
  const fs::path resolved = fs::weakly_canonical(path, error);
  return error || !fs::is_symlink(fs::symlink_status(path, error)) ? path : resolved.string();
}

/// A name no other thread or process uses, in the same folder so that rename stays on one file system.
std::string temporary_name(const std::string& target) {
  static std::atomic<unsigned> counter{0};
  const fs::path path(target);
  return (path.parent_path() /
          fmt::format(".{}.{}-{}.tmp", path.filename().string(), ::getpid(), counter.fetch_add(1)))
      .string();
}

std::string parent_folder(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace

std::vector<std::byte> read_file(const std::string& path, std::size_t most) {
  const auto fail = [&path] { user_error("cannot read {}: {}", path, reason(errno)); };
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail();
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) fail();
  const auto too_large = [&] { user_error("cannot read {}: it is larger than {} bytes", path, most); };
  if (static_cast<std::size_t>(status.st_size) > most) too_large();
  // st_size is a hint only: pipes and /proc say 0, and one more byte shows the end without growing.
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

AtomicFile::AtomicFile(const std::string& path) : path_(path), target_(follow_links(path)) {
  struct stat status{};
  const bool exists = ::stat(target_.c_str(), &status) == 0;
  if (exists && !S_ISREG(status.st_mode)) {
    descriptor_ = ::open(target_.c_str(), O_WRONLY | O_CLOEXEC);  // a folder: "Is a directory"
    if (descriptor_ < 0) fail("cannot write");
    return;
  }
  const std::string temporary = temporary_name(target_);
  descriptor_ = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("cannot write");
  temporary_ = temporary;
}

AtomicFile::~AtomicFile() {
  close_descriptor();
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::fail(std::string_view action) const {
  user_error("{} {}: {}", action, path_, reason(errno));
}

void AtomicFile::close_descriptor() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("cannot write");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void AtomicFile::commit() {
  // Pipes and some devices cannot be synced and say EINVAL; they have nothing to lose either.
  if (::fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) fail("cannot write");
  const int descriptor = std::exchange(descriptor_, -1);
  if (::close(descriptor) != 0) fail("cannot write");
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("cannot replace");
  temporary_.clear();
  // The new name is durable when the folder is. A folder may be writable without being readable: then the
  // system syncs it in its own time.
  const Descriptor folder(::open(parent_folder(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0 && ::fsync(folder.get()) != 0 && errno != EINVAL) fail("cannot sync the folder of");
}

void write_file_atomically(const std::string& path, std::span<const std::byte> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void write_file_atomically(const std::string& path, std::string_view text) {
  write_file_atomically(path, std::as_bytes(std::span(text.data(), text.size())));
}

void make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) user_error("cannot make the folder {}: {}", path, error.message());
}

void require_writable(const std::string& path) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::fifo || type == fs::file_type::socket)
    return;  // opening one is not without effect
  const AtomicFile probe(path);
}

std::string printable(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  const std::string_view kept = cut(text, kLongest);
  return visible(kept) + (kept.size() < text.size() ? "…" : "");
}

}  // namespace rewire::runtime
