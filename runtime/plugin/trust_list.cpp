#include "runtime/plugin/trust_list.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "codegen/files/trusted.h"
#include "ir/error.h"
#include "runtime/device/log.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

constexpr std::string_view kWhat = "this list of trusted code";
constexpr std::size_t kMostListBytes = std::size_t{16} << 20;

[[noreturn]] void fail(const std::string& path, int error) {
  user_error("cannot read or write '{}': {}", path, std::generic_category().message(error));
}

/// Returns the whole list, under a lock that ends with the descriptor.
std::string read_locked(const codegen::TrustedFile& list, int lock) {
  struct stat status{};
  if (::fstat(list.file.get(), &status) != 0) fail(list.path, errno);
  if (!S_ISREG(status.st_mode)) user_error("'{}' is not a regular file", list.path);
  while (::flock(list.file.get(), lock) != 0) {
    if (errno != EINTR) fail(list.path, errno);
  }
  std::string text;
  std::array<char, 4096> buffer;
  while (text.size() <= kMostListBytes) {
    const ssize_t size = ::read(list.file.get(), buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) fail(list.path, errno);
    if (size == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(size));
  }
  user_error("'{}' has more than {} bytes: remove lines that are no longer needed", list.path,
             kMostListBytes);
}

/// A line is a hash, alone or before a space.
bool holds(std::string_view text, std::string_view sha256) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.substr(0, line.find_first_of(" \t\r")) == sha256) return true;
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return false;
}

codegen::TrustedFile open_or_create(const std::string& path) {
  constexpr int kFlags = O_RDWR | O_APPEND | O_NONBLOCK | O_NOCTTY;
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::symlink_status(path, error)))
    return codegen::open_trusted(path, kFlags, kWhat);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  make_folder(folder);
  const codegen::TrustedFile place = codegen::open_trusted(folder, O_PATH | O_DIRECTORY, kWhat);
  codegen::TrustedFile list;
  list.path = path;
  const std::string name = std::filesystem::path(path).filename().string();
  list.file = codegen::Descriptor(
      ::openat(place.file.get(), name.c_str(), kFlags | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!list.file) fail(path, errno);
  return list;
}

void append(const codegen::TrustedFile& list, std::size_t size, const std::string& line) {
  const ssize_t written = ::write(list.file.get(), line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) return;
  const int error = written < 0 ? errno : ENOSPC;
  if (::ftruncate(list.file.get(), static_cast<off_t>(size)) != 0) {
    // Half a line holds no hash, and the next line begins on a new one.
  }
  fail(list.path, error);
}

}  // namespace

std::string trust_list_path() {
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data != nullptr && *data == '/') return std::string(data) + "/rewire/trusted";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? std::string(home) + "/.local/share/rewire/trusted" : "";
}

bool is_trusted(std::string_view sha256) {
  const std::string path = trust_list_path();
  std::error_code error;
  if (path.empty() || !std::filesystem::exists(path, error)) return false;
  try {
    const codegen::TrustedFile list = codegen::open_trusted(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, kWhat);
    return holds(read_locked(list, LOCK_SH), sha256);
  } catch (const UserError& e) {
    write_log(LogLevel::warning, e.what());
    return false;
  }
}

void remember_trusted(std::string_view sha256, std::string_view path) {
  const std::string place = trust_list_path();
  if (place.empty()) return;
  try {
    const codegen::TrustedFile list = open_or_create(place);
    const std::string text = read_locked(list, LOCK_EX);
    if (holds(text, sha256)) return;
    const bool begins_anew = !text.empty() && text.back() != '\n';
    append(list, text.size(), fmt::format("{}{}  # {}\n", begins_anew ? "\n" : "", sha256, one_line(path)));
  } catch (const UserError& e) {
    // No warning: it is no fault if nobody can write to the home, as in many containers.
    write_log(LogLevel::debug, fmt::format("{} is not remembered as trusted: {}", one_line(path), e.what()));
  }
}

}  // namespace rewire::runtime
