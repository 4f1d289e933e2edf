#include "runtime/data/vision/decoded_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "codegen/files/descriptor.h"
#include "codegen/files/digest.h"
#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/data/vision/image_pipeline.h"
#include "runtime/device/log.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

constexpr std::size_t kMagicBytes = sizeof(kCacheMagic) - 1, kDigestBytes = 64;
constexpr std::int64_t kDecodedAtOnce = 256;  // images

struct CacheEntry {
  std::uint64_t offset = 0;
  std::uint32_t height = 0, width = 0;
};
static_assert(sizeof(CacheEntry) == 16);

struct CacheTail {
  std::uint64_t images = 0;
  char digest[kDigestBytes] = {};
  char magic[kMagicBytes] = {};
};
static_assert(sizeof(CacheTail) == 8 + kDigestBytes + kMagicBytes);

/// An open file of decoded images. It is read piece by piece, so that a truncation meanwhile is an error.
class CacheFile {
 public:
  /// Returns null if there is no such file. Throws UserError if it is not a regular
  /// file of this user's or root's.
  static std::unique_ptr<CacheFile> open(const std::string& path) {
    codegen::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file && errno == ENOENT) return nullptr;
    struct stat status{};
    if (!file || ::fstat(file.get(), &status) != 0)
      user_error("cannot read {}: {}", visible(path), std::generic_category().message(errno));
    if (!S_ISREG(status.st_mode))
      user_error("{}: it is not a regular file, but decoded images are stored there: remove it",
                 visible(path));
    if (status.st_uid != ::geteuid() && status.st_uid != 0) {
      user_error("{}: it belongs to user {}, so its images may differ: set another data.cache", visible(path),
                 status.st_uid);
    }
    return std::unique_ptr<CacheFile>(new CacheFile(path, std::move(file), status));
  }

  std::size_t size() const { return static_cast<std::size_t>(status_.st_size); }

  /// Throws UserError if the file no longer has that many bytes.
  void read(std::size_t offset, std::span<std::byte> out) const {
    while (!out.empty()) {
      const ssize_t count = ::pread(file_.get(), out.data(), out.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) user_error("cannot read {}: {}", visible(path_), std::generic_category().message(errno));
      if (count == 0) fail_changed();
      offset += static_cast<std::size_t>(count);
      out = out.subspan(static_cast<std::size_t>(count));
    }
  }

  /// Throws UserError if the file was written to after it was opened.
  void check_unchanged() const {
    struct stat now{};
    if (::fstat(file_.get(), &now) != 0 || now.st_size != status_.st_size ||
        now.st_mtim.tv_sec != status_.st_mtim.tv_sec || now.st_mtim.tv_nsec != status_.st_mtim.tv_nsec)
      fail_changed();
  }

 private:
  CacheFile(std::string path, codegen::Descriptor file, const struct stat& status)
      : path_(std::move(path)), file_(std::move(file)), status_(status) {}

  [[noreturn]] void fail_changed() const {
    throw DataError(fmt::format(
        "{}: the decoded images have changed since they were opened: run the command again", visible(path_)));
  }

  std::string path_;
  codegen::Descriptor file_;
  struct stat status_;
};

std::size_t padded(std::size_t size) {
  return (size + 7) / 8 * 8;
}

/// BLAKE3 of the file's first bytes.
std::string digest_of_first(const CacheFile& file, std::size_t bytes) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  codegen::Digest digest;
  std::vector<std::byte> piece(std::min(kPiece, bytes));
  for (std::size_t at = 0; at < bytes; at += piece.size()) {
    const std::span<std::byte> part = std::span(piece).first(std::min(piece.size(), bytes - at));
    file.read(at, part);
    digest.update(part);
  }
  return digest.hex();
}

/// Returns the entries if the file is whole and holds `count` images of `channels`; else nullopt.
std::optional<std::vector<CacheEntry>> entries_of(const CacheFile& file, std::int64_t count,
                                                  std::int64_t channels) {
  const std::size_t table = static_cast<std::size_t>(count) * sizeof(CacheEntry);
  if (file.size() < table + sizeof(CacheTail)) return std::nullopt;
  CacheTail tail;
  file.read(file.size() - sizeof tail, std::as_writable_bytes(std::span(&tail, 1)));
  if (std::string_view(tail.magic, kMagicBytes) != kCacheMagic ||
      tail.images != static_cast<std::uint64_t>(count))
    return std::nullopt;
  const std::size_t digested = file.size() - kDigestBytes - kMagicBytes;
  if (digest_of_first(file, digested) != std::string_view(tail.digest, kDigestBytes)) return std::nullopt;
  std::vector<CacheEntry> entries(static_cast<std::size_t>(count));
  const std::size_t pixels = file.size() - sizeof tail - table;
  file.read(pixels, std::as_writable_bytes(std::span(entries)));
  for (const auto& [offset, height, width] : entries) {
    const unsigned __int128 size =
        static_cast<unsigned __int128>(height) * width * static_cast<std::uint64_t>(channels);
    if (offset + size > pixels) return std::nullopt;
  }
  return entries;
}

class CachedSource final : public ImagesOver {
 public:
  CachedSource(std::unique_ptr<ImageSource> source, std::unique_ptr<const CacheFile> file,
               std::vector<CacheEntry> entries)
      : ImagesOver(std::move(source)), file_(std::move(file)), entries_(std::move(entries)) {}

  StoredImage decode(std::int64_t index, ReadBuffer& buffer, const BoxFunction& needed) const override {
    const auto& [offset, height, width] = entries_[static_cast<std::size_t>(index)];
    if (height == 0) return ImagesOver::decode(index, buffer, needed);
    const auto size = static_cast<std::size_t>(shape()[0]) * height * width;
    file_->check_unchanged();
    buffer.pixels.resize(size);
    file_->read(offset, std::as_writable_bytes(std::span(buffer.pixels)));
    return {buffer.pixels, height, width};
  }
  std::string fingerprint() const override { return {}; }

 private:
  std::unique_ptr<const CacheFile> file_;
  std::vector<CacheEntry> entries_;
};

struct Decoded {
  ReadBuffer buffer;
  StoredImage image;         // without pixels: it could not be read
  std::exception_ptr error;  // another fault
};

/// Decodes images from `first` on, one for each of `decoded`.
void decode_all(const ImageSource& source, std::int64_t first, std::span<Decoded> decoded, int threads) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < decoded.size(); i = next++) {
      Decoded& one = decoded[i];
      one.image = {};
      one.error = nullptr;
      try {
        const std::int64_t image = first + static_cast<std::int64_t>(i);
        one.image = source.decode(image, one.buffer, nullptr);
        note_orientation(source, image, one.image);
      } catch (const DataError&) {
        one.error = std::current_exception();
      } catch (const UserError&) {  // reported if the image is needed
      } catch (...) {
        one.error = std::current_exception();
      }
    }
  };
  std::vector<std::jthread> helpers;
  try {
    for (int i = 1; i < threads; ++i) helpers.emplace_back(work);
  } catch (const std::system_error&) {  // no more threads: the existing ones do it
  }
  work();
  for (std::jthread& helper : helpers) helper.join();
  for (const Decoded& one : decoded) {
    if (one.error) std::rethrow_exception(one.error);
  }
}

void write_cache(const ImageSource& source, const std::string& path, const CacheOptions& options) {
  AtomicFile file(path);
  std::vector<CacheEntry> entries;
  std::uint64_t size = 0;
  std::vector<Decoded> decoded(static_cast<std::size_t>(std::min(source.count(), kDecodedAtOnce)));
  for (std::int64_t first = 0; first < source.count(); first += kDecodedAtOnce) {
    const auto count = static_cast<std::size_t>(std::min(source.count() - first, kDecodedAtOnce));
    const std::span<Decoded> batch = std::span(decoded).first(count);
    decode_all(source, first, batch, options.threads);
    for (const Decoded& one : batch) {
      entries.push_back(
          {size, static_cast<std::uint32_t>(one.image.height), static_cast<std::uint32_t>(one.image.width)});
      file.write(std::as_bytes(one.image.pixels));
      size += one.image.pixels.size();
    }
  }
  constexpr std::byte kPadding[8] = {};
  file.write(std::span(kPadding).first(padded(size) - size));
  file.write(std::as_bytes(std::span(entries)));
  CacheTail tail;
  tail.images = entries.size();
  file.write(std::as_bytes(std::span(&tail.images, 1)));
  file.digest().copy(tail.digest, kDigestBytes);
  std::memcpy(tail.magic, kCacheMagic, kMagicBytes);
  file.write(std::as_bytes(std::span(&tail, 1)).subspan(sizeof tail.images));
  file.commit();
}

}  // namespace

std::unique_ptr<ImageSource> cache_decoded(std::unique_ptr<ImageSource> source, const CacheOptions& options) {
  const std::string fingerprint = source->fingerprint();
  if (fingerprint.empty())
    user_error("{}: its pixels are already in memory: remove data.cache", source->name());
  const std::string path = (std::filesystem::path(options.folder) / (fingerprint + ".images")).string();
  for (const bool is_first : {true, false}) {
    std::unique_ptr<const CacheFile> file = CacheFile::open(path);
    const bool was_there = file != nullptr;
    std::optional<std::vector<CacheEntry>> entries;
    if (was_there) entries = entries_of(*file, source->count(), source->shape()[0]);
    if (entries)
      return std::make_unique<CachedSource>(std::move(source), std::move(file), std::move(*entries));
    if (!is_first) break;
    make_folder(options.folder);
    write_log(
        was_there ? LogLevel::warning : LogLevel::info,
        fmt::format("{}decoding {} images of {} into {}", was_there ? "replacing a damaged cache: " : "",
                    source->count(), source->name(), visible(path)));
    write_cache(*source, path, options);
  }
  user_error("{}: its content differs from what was written: check the disk", visible(path));
}

}  // namespace rewire::runtime
