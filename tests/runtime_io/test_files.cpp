// Reading whole files and atomic replacement, also when the disk says no.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "ir/error.h"
#include "runtime/device/sanitized.h"
#include "runtime/io/files.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using test::TemporaryFolder;

std::string text_of(const std::string& path) {
  const std::vector<std::byte> bytes = read_file(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Lets no file of this process grow beyond `bytes`, as a full disk does, while it lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_limit_);
    const rlimit limit{bytes, old_limit_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_limit_);
    std::signal(SIGXFSZ, old_handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*old_handler_)(int);
  rlimit old_limit_{};
};

/// Runs as a user whom permissions bind, also when the tests run as root.
class Unprivileged {
 public:
  Unprivileged() {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0) restore_ = ::seteuid(kNobody) == 0;
  }
  ~Unprivileged() {
    if (restore_ && ::seteuid(0) != 0) std::abort();
  }
  Unprivileged(const Unprivileged&) = delete;
  Unprivileged& operator=(const Unprivileged&) = delete;

  /// False where root cannot become another user, as in a namespace that maps no other.
  bool is_bound() const { return ::geteuid() != 0; }

 private:
  bool restore_ = false;
};

TEST_CASE("A file reads back what was written, whatever its size") {
  const TemporaryFolder folder;
  const std::string path = folder.file("data");
  for (const std::size_t size : {0, 1, 4095, 4096, 4097, 1'000'000}) {
    CAPTURE(size);
    std::string text(size, 'x');
    if (size > 0) text.back() = '\0';
    write_file_atomically(path, text);
    CHECK(text_of(path) == text);
    CHECK(folder.entries() == 1);
  }
}

TEST_CASE("A file whose size the system does not know is read to its end") {
  CHECK_FALSE(read_file("/proc/self/maps").empty());
}

TEST_CASE("A file that cannot be read is a user error with the system's reason") {
  const TemporaryFolder folder;
  const std::string missing = folder.file("missing");
  CHECK(message_of<UserError>([&] { read_file(missing); }) ==
        "cannot read " + missing + ": No such file or directory");
  const std::string path = folder.path().string();
  CHECK(message_of<UserError>([&] { read_file(path); }) == "cannot read " + path + ": Is a directory");
}

#ifndef REWIRE_SANITIZED  // whose allocators abort on such a size
TEST_CASE("A file larger than memory is refused before it is read") {
  const TemporaryFolder folder;
  const std::string path = folder.file("sparse");
  {
    const std::ofstream create(path);
  }
  std::error_code error;
  fs::resize_file(path, std::uintmax_t{1} << 43, error);
  if (error) {
    WARN("this file system has no sparse files of 8 TiB");
    return;
  }
  struct rlimit old_limit{};
  ::getrlimit(RLIMIT_AS, &old_limit);
  const rlimit limit{rlim_t{1} << 40, old_limit.rlim_max};
  ::setrlimit(RLIMIT_AS, &limit);
  const std::string message = message_of<UserError>([&] { read_file(path); });
  ::setrlimit(RLIMIT_AS, &old_limit);
  CHECK(message == "cannot read " + path + ": its 8796093022208 bytes do not fit in memory");
}
#endif

TEST_CASE("The old file survives a write that runs out of space, and nothing is left behind") {
  const TemporaryFolder folder;
  const std::string path = folder.file("checkpoint");
  write_file_atomically(path, "the old state");
  const std::string large(100'000, 'x');
  std::string message;
  {
    const FileSizeLimit limit(4096);
    message = message_of<UserError>([&] { write_file_atomically(path, large); });
  }
  CHECK(message == "cannot write " + path + ": File too large");
  CHECK(text_of(path) == "the old state");
  CHECK(folder.entries() == 1);
}

TEST_CASE("What a process of the same number left half-written is in nobody's way") {
  const TemporaryFolder folder;
  for (int i = 0; i < 2000; ++i)
    std::ofstream(folder.file(fmt::format(".state.{}-{}.tmp", ::getpid(), i))) << "half";
  CHECK_NOTHROW(write_file_atomically(folder.file("state"), "new"));
  CHECK(text_of(folder.file("state")) == "new");
}

TEST_CASE("Of a device without an end that the user named no more is read than is wanted") {
  CHECK(message_of<UserError>([] { read_file(FilePlace::of_user("/dev/zero"), 1 << 20); }) ==
        "cannot read /dev/zero: it is larger than 1048576 bytes");
}

TEST_CASE("A device is written in place, and its full disk is reported") {
  CHECK(message_of<UserError>([] { write_file_atomically("/dev/full", "text"); }) ==
        "cannot write /dev/full: No space left on device");
  write_file_atomically("/dev/null", "text");
  CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("A read-only folder is reported and its file survives") {
  const TemporaryFolder folder;
  const std::string path = folder.file("state");
  write_file_atomically(path, "old");
  fs::permissions(folder.path(), fs::perms(0555));
  std::string message;
  {
    const Unprivileged user;
    if (!user.is_bound()) {
      WARN("not run: root cannot become another user here");
      return;
    }
    message = message_of<UserError>([&] { write_file_atomically(path, "new"); });
  }
  fs::permissions(folder.path(), fs::perms(0755));
  CHECK(message == "cannot write " + path + ": Permission denied");
  CHECK(text_of(path) == "old");
  CHECK(folder.entries() == 1);
}

TEST_CASE("A missing folder and a folder in the file's place are reported") {
  const TemporaryFolder folder;
  const std::string missing = folder.file("no/such/file");
  CHECK(message_of<UserError>([&] { write_file_atomically(missing, "x"); }) ==
        "cannot write " + missing + ": No such file or directory");
  const std::string path = folder.path().string();
  CHECK(message_of<UserError>([&] { write_file_atomically(path, "x"); }) ==
        "cannot write " + path + ": Is a directory");
  CHECK(folder.entries() == 0);
}

TEST_CASE("A symbolic link is followed, not replaced") {
  const TemporaryFolder folder;
  fs::create_directory(folder.path() / "real");
  const std::string target = folder.file("real/weights"), link = folder.file("latest");
  write_file_atomically(target, "old");
  fs::create_symlink(target, link);
  write_file_atomically(link, "new");
  CHECK(fs::is_symlink(link));
  CHECK(text_of(target) == "new");
}

TEST_CASE("An uncommitted file leaves nothing behind") {
  const TemporaryFolder folder;
  {
    AtomicFile file(folder.file("half"));
    file.write(std::as_bytes(std::span("half", 4)));
    CHECK(folder.entries() <= 1);  // none where the system has files without a name
  }
  CHECK(folder.entries() == 0);
}

TEST_CASE("A place that cannot be written to is refused before any work, and a good one is left as it was") {
  const TemporaryFolder folder;
  require_writable(folder.file("new"));
  CHECK(folder.entries() == 0);
  write_file_atomically(folder.file("old"), "old");
  require_writable(folder.file("old"));
  CHECK(text_of(folder.file("old")) == "old");
  CHECK(folder.entries() == 1);
  require_writable("/dev/null");
  const std::string missing = folder.file("no/such/file");
  CHECK(message_of<UserError>([&] { require_writable(missing); }) ==
        "cannot write " + missing + ": No such file or directory");
  const std::string path = folder.path().string();
  CHECK(message_of<UserError>([&] { require_writable(path); }) ==
        "cannot write " + path + ": Is a directory");
}

TEST_CASE("Text from a file is made fit for one line") {
  CHECK(printable("blocks.0.ü") == "blocks.0.ü");
  CHECK(printable("a\nb\x1b[0m\x7f") == "a\\x0ab\\x1b[0m\\x7f");
  CHECK(printable(std::string(81, 'n')) == std::string(80, 'n') + "…");
  CHECK(printable(std::string(79, 'n') + "üx") == std::string(79, 'n') + "…");  // never half a character
}

}  // namespace
}  // namespace rewire::runtime
