// Layout of an entry: magic, then key size, object size and scratch bytes as 8-byte little-endian numbers, 32
// bytes of BLAKE3 over all that follows, the key, the object.
#include "codegen/object_cache.h"

#include <fcntl.h>
#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/BLAKE3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ir/error.h"

namespace rewire::codegen {
namespace {

constexpr std::string_view kMagic = "rewire-kernel-1\n";

struct Header {
  std::uint64_t key_bytes = 0, object_bytes = 0, scratch_bytes = 0;
  std::array<char, 32> checksum{};
};

std::array<char, 32> checksum(std::string_view key, std::string_view object) {
  llvm::BLAKE3 hasher;
  hasher.update(llvm::StringRef(key));
  hasher.update(llvm::StringRef(object));
  const auto digest = hasher.final<32>();
  std::array<char, 32> bytes;
  std::memcpy(bytes.data(), digest.data(), bytes.size());
  return bytes;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return file ? std::move(text).str() : std::string();
}

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// Under a name of this process and moment, then renamed.
bool write_file(const std::string& path, std::string_view text) {
  static std::atomic<int> counter{0};
  const std::string temporary = fmt::format("{}.{}.{}.tmp", path, ::getpid(), counter.fetch_add(1));
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return false;
  bool good = write_all(file, text);
  good = ::close(file) == 0 && good;
  good = good && std::rename(temporary.c_str(), path.c_str()) == 0;
  if (!good) ::unlink(temporary.c_str());
  return good;
}

}  // namespace

std::string hash_text(std::string_view text) {
  llvm::BLAKE3 hasher;
  hasher.update(llvm::StringRef(text));
  const auto digest = hasher.final<16>();
  return llvm::toHex(llvm::ArrayRef<std::uint8_t>(digest.data(), digest.size()), /*LowerCase=*/true);
}

ObjectCache::ObjectCache(std::string directory) : directory_(std::move(directory)) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(directory_).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (!error && ::mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST)
    error.assign(errno, std::generic_category());
  if (error) user_error("kernel cache {}: {}", directory_, error.message());
  struct stat status{};
  if (::stat(directory_.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    user_error("kernel cache {}: not a folder", directory_);
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0 || (status.st_uid != ::geteuid() && status.st_uid != 0)) {
    user_error("kernel cache {}: others can write to it, and so plant code; chmod go-w it or choose another",
               directory_);
  }
}

std::string ObjectCache::path(std::string_view key) const {
  return fmt::format("{}/{}.kernel", directory_, hash_text(key));
}

std::optional<CachedObject> ObjectCache::load(std::string_view key, std::string* why) const {
  const auto miss = [&](const char* reason) {
    if (why != nullptr) *why = reason;
    return std::nullopt;
  };
  const std::string text = read_file(path(key));
  if (text.empty()) return miss("there is no entry");
  std::string_view rest = text;
  Header header;
  if (rest.size() < kMagic.size() + sizeof(header) || !rest.starts_with(kMagic))
    return miss("the entry is of another version");
  std::memcpy(&header, rest.data() + kMagic.size(), sizeof(header));
  rest.remove_prefix(kMagic.size() + sizeof(header));
  if (header.key_bytes != key.size() || header.key_bytes > rest.size())
    return miss("the entry has another key");
  if (header.object_bytes != rest.size() - header.key_bytes) return miss("the entry is cut off");
  const std::string_view object = rest.substr(key.size());
  if (rest.substr(0, key.size()) != key) return miss("the entry has another key");
  if (header.checksum != checksum(key, object)) return miss("the entry is damaged");
  return CachedObject{std::string(object), static_cast<std::int64_t>(header.scratch_bytes)};
}

bool ObjectCache::store(std::string_view key, const CachedObject& entry, std::string_view source,
                        std::string_view suffix) const {
  const Header header{key.size(), entry.object.size(), static_cast<std::uint64_t>(entry.scratch_bytes),
                      checksum(key, entry.object)};
  std::string text(kMagic);
  text.append(reinterpret_cast<const char*>(&header), sizeof(header));
  text.append(key);
  text.append(entry.object);
  const std::string file = path(key);
  write_file(fmt::format("{}{}", file.substr(0, file.size() - std::string_view("kernel").size()), suffix),
             source);
  return write_file(file, text);
}

}  // namespace rewire::codegen
