// The layout of an entry: magic, 32 bytes of BLAKE3 over all that follows, then key size, object size and
// scratch bytes as 8-byte little-endian numbers, the key, the object.
#include "codegen/object_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/BLAKE3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <system_error>

#include "codegen/files/replacing_file.h"
#include "codegen/files/trusted.h"
#include "ir/error.h"

namespace rewire::codegen {
namespace {

constexpr std::string_view kMagic = "rewire-kernel-2\n";
constexpr std::uint64_t kMostObjectBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kMostScratchBytes = std::uint64_t{1} << 32;
constexpr std::time_t kStaleSeconds = 3600;  // age of a half-written file that a killed process left

using Checksum = std::array<char, 32>;

struct Header {
  std::uint64_t key_bytes = 0, object_bytes = 0, scratch_bytes = 0;
};

Checksum checksum(std::string_view bytes) {
  llvm::BLAKE3 hasher;
  hasher.update(llvm::StringRef(bytes));
  const auto digest = hasher.final<32>();
  Checksum sum;
  std::memcpy(sum.data(), digest.data(), sum.size());
  return sum;
}

/// Returns the file's bytes; "" and the reason if there is no file that can be trusted.
std::string read_entry(int folder, const std::string& name, std::string& reason) {
  const Descriptor file(::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) {
    reason = errno == ENOENT ? "there is no entry" : fmt::format("the entry: {}", std::strerror(errno));
    return "";
  }
  reason = distrust(status);
  if (!reason.empty()) {
    reason = "the entry cannot be trusted: " + reason;
    return "";
  }
  if (static_cast<std::uint64_t>(status.st_size) > kMostObjectBytes) {
    reason = "the entry is too large";
    return "";
  }
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = ::read(file.get(), text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    size += static_cast<std::size_t>(count);
  }
  text.resize(size);
  if (text.empty()) reason = "the entry is empty";
  return text;
}

bool write_entry(int folder, const std::string& name, std::string_view text) {
  ReplacingFile file(folder, name, 0600);
  return file.write(text) && file.commit(ReplacingFile::Durability::none);
}

/// Removes half-written files that no process can still be writing.
void sweep(int folder) {
  const auto close = [](DIR* stream) { ::closedir(stream); };
  Descriptor again(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, decltype(close)> stream(again ? ::fdopendir(again.get()) : nullptr);
  if (!stream) return;
  again.release();  // the stream owns it now
  const std::time_t now = std::time(nullptr);
  while (const dirent* entry = ::readdir(stream.get())) {
    struct stat status{};
    if (!std::string_view(entry->d_name).ends_with(".tmp")) continue;
    if (::fstatat(folder, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode))
      continue;
    if (now - status.st_mtime > kStaleSeconds) ::unlinkat(folder, entry->d_name, 0);
  }
}

/// Makes a folder and its missing parents, for this user alone whatever the umask. Returns 0 or an errno.
int make_private_folders(const std::filesystem::path& path) {
  std::filesystem::path made;
  for (const std::filesystem::path& part : path) {
    made /= part;
    if (::mkdir(made.c_str(), 0700) == 0) continue;
    const int error =
        errno;  // of a folder that exists and cannot be made, as on a read-only disk; it is then ignored
    if (::access(made.c_str(), F_OK) != 0) return error;
  }
  return 0;
}

std::string entry_name(std::string_view key, std::string_view suffix) {
  return fmt::format("{}.{}", hash_text(key), suffix);
}

}  // namespace

std::string hash_text(std::string_view text) {
  llvm::BLAKE3 hasher;
  hasher.update(llvm::StringRef(text));
  const auto digest = hasher.final<16>();
  return llvm::toHex(llvm::ArrayRef<std::uint8_t>(digest.data(), digest.size()), /*LowerCase=*/true);
}

ObjectCache::ObjectCache(std::string directory) : directory_(std::move(directory)) {
  if (const int error = make_private_folders(directory_); error != 0)
    user_error("kernel cache {}: {}", directory_, std::generic_category().message(error));
  struct stat status{};
  if (::stat(directory_.c_str(), &status) == 0 && !S_ISDIR(status.st_mode))
    user_error("kernel cache {}: not a folder", directory_);
  try {
    folder_ = open_trusted(directory_, O_PATH | O_DIRECTORY, "code in it").file;
  } catch (const UserError& refusal) {
    user_error("kernel cache {}: {}", directory_, refusal.what());
  }
}

std::string ObjectCache::path(std::string_view key) const {
  return fmt::format("{}/{}", directory_, entry_name(key, "kernel"));
}

std::optional<CachedObject> ObjectCache::load(std::string_view key, std::string* why) const {
  const auto miss = [&](std::string reason) {
    if (why != nullptr) *why = std::move(reason);
    return std::nullopt;
  };
  std::string reason;
  const std::string text = read_entry(folder_.get(), entry_name(key, "kernel"), reason);
  if (text.empty()) return miss(reason);
  std::string_view rest = text;
  Checksum sum;
  Header header;
  if (rest.size() < kMagic.size() + sum.size() + sizeof header || !rest.starts_with(kMagic))
    return miss("the entry has another version");
  rest.remove_prefix(kMagic.size());
  std::memcpy(sum.data(), rest.data(), sum.size());
  rest.remove_prefix(sum.size());
  if (sum != checksum(rest)) return miss("the entry is damaged");
  std::memcpy(&header, rest.data(), sizeof header);
  rest.remove_prefix(sizeof header);
  if (header.key_bytes != key.size() || !rest.starts_with(key)) return miss("the entry has another key");
  rest.remove_prefix(key.size());
  if (header.object_bytes != rest.size() || header.scratch_bytes > kMostScratchBytes)
    return miss("the entry's sizes are invalid");
  return CachedObject{std::string(rest), static_cast<std::int64_t>(header.scratch_bytes)};
}

bool ObjectCache::store(std::string_view key, const CachedObject& entry, std::string_view source,
                        std::string_view suffix) const {
  std::call_once(swept_, [this] { sweep(folder_.get()); });
  const Header header{key.size(), entry.object.size(), static_cast<std::uint64_t>(entry.scratch_bytes)};
  std::string content(reinterpret_cast<const char*>(&header), sizeof header);
  content.append(key);
  content.append(entry.object);
  const Checksum sum = checksum(content);
  std::string text(kMagic);
  text.append(sum.data(), sum.size());
  text.append(content);
  write_entry(folder_.get(), entry_name(key, suffix), source);
  return write_entry(folder_.get(), entry_name(key, "kernel"), text);
}

}  // namespace rewire::codegen
