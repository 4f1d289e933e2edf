#include "runtime/data/decoded_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

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
#include "runtime/io/files.h"
#include "runtime/log.h"

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

/// A file in memory, for reading; empty where it cannot be had.
class FileMapping {
 public:
  explicit FileMapping(const std::string& path) {
    const codegen::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status{};
    if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) return;
    const auto size = static_cast<std::size_t>(status.st_size);
    void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
    if (memory != MAP_FAILED) bytes_ = {static_cast<const std::byte*>(memory), size};
  }
  ~FileMapping() {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

std::size_t padded(std::size_t size) {
  return (size + 7) / 8 * 8;
}

/// The entries of a file that is whole and holds `count` images of `channels`.
std::optional<std::vector<CacheEntry>> entries_of(std::span<const std::byte> file, std::int64_t count,
                                                  std::int64_t channels) {
  const std::size_t table = static_cast<std::size_t>(count) * sizeof(CacheEntry);
  if (file.size() < table + sizeof(CacheTail)) return std::nullopt;
  CacheTail tail;
  std::memcpy(&tail, file.data() + file.size() - sizeof tail, sizeof tail);
  if (std::string_view(tail.magic, kMagicBytes) != kCacheMagic ||
      tail.images != static_cast<std::uint64_t>(count))
    return std::nullopt;
  const std::size_t digested = file.size() - kDigestBytes - kMagicBytes;
  if (codegen::digest_hex(file.first(digested)) != std::string_view(tail.digest, kDigestBytes))
    return std::nullopt;
  std::vector<CacheEntry> entries(static_cast<std::size_t>(count));
  const std::size_t pixels = file.size() - sizeof tail - table;
  std::memcpy(entries.data(), file.data() + pixels, table);
  for (const auto& [offset, height, width] : entries) {
    const unsigned __int128 size =
        static_cast<unsigned __int128>(height) * width * static_cast<std::uint64_t>(channels);
    if (offset + size > pixels) return std::nullopt;
  }
  return entries;
}

class CachedSource final : public ImageSource {
 public:
  CachedSource(std::unique_ptr<ImageSource> source, std::unique_ptr<const FileMapping> file,
               std::vector<CacheEntry> entries)
      : source_(std::move(source)),
        channels_(source_->shape()[0]),
        file_(std::move(file)),
        entries_(std::move(entries)) {}

  std::string name() const override { return source_->name(); }
  std::int64_t count() const override { return source_->count(); }
  ir::Shape shape() const override { return source_->shape(); }
  std::int64_t label(std::int64_t index) const override { return source_->label(index); }
  std::string image_name(std::int64_t index) const override { return source_->image_name(index); }
  std::vector<std::string> class_names() const override { return source_->class_names(); }
  std::vector<std::uint32_t> order(std::uint64_t seed, std::int64_t epoch) const override {
    return source_->order(seed, epoch);
  }
  StoredImage read(std::int64_t index, ReadBuffer& buffer, const BoxFunction& needed) const override {
    const auto& [offset, height, width] = entries_[static_cast<std::size_t>(index)];
    if (height == 0) return source_->read(index, buffer, needed);
    const auto size = static_cast<std::size_t>(channels_) * height * width;
    return {{reinterpret_cast<const std::uint8_t*>(file_->bytes().data()) + offset, size}, height, width};
  }

 private:
  std::unique_ptr<ImageSource> source_;
  std::int64_t channels_;
  std::unique_ptr<const FileMapping> file_;
  std::vector<CacheEntry> entries_;
};

struct Decoded {
  ReadBuffer buffer;
  StoredImage image;         // without pixels: it could not be read
  std::exception_ptr error;  // another fault
};

/// Images from `first` on, one for each of `decoded`.
void decode_all(const ImageSource& source, std::int64_t first, std::span<Decoded> decoded, int threads) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < decoded.size(); i = next++) {
      Decoded& one = decoded[i];
      one.image = {};
      one.error = nullptr;
      try {
        one.image = source.read(first + static_cast<std::int64_t>(i), one.buffer, nullptr);
      } catch (const UserError&) {  // told where it is needed, if it is
      } catch (...) {
        one.error = std::current_exception();
      }
    }
  };
  std::vector<std::jthread> helpers;
  try {
    for (int i = 1; i < threads; ++i) helpers.emplace_back(work);
  } catch (const std::system_error&) {  // no more threads are to be had: these do
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
    user_error("{}: its pixels are in memory already: drop data.cache", source->name());
  const std::string path = (std::filesystem::path(options.folder) / (fingerprint + ".images")).string();
  std::error_code ignored;
  for (const bool is_first : {true, false}) {
    const bool was_there = std::filesystem::exists(path, ignored);
    auto file = std::make_unique<const FileMapping>(path);
    auto entries = entries_of(file->bytes(), source->count(), source->shape()[0]);
    if (entries)
      return std::make_unique<CachedSource>(std::move(source), std::move(file), std::move(*entries));
    if (!is_first) break;
    make_folder(options.folder);
    write_log(
        was_there ? LogLevel::warning : LogLevel::info,
        fmt::format("{}decoding {} images of {} into {}", was_there ? "a damaged cache is made anew: " : "",
                    source->count(), source->name(), visible(path)));
    write_cache(*source, path, options);
  }
  user_error("{}: it does not hold what was written to it: is the disk sound?", visible(path));
}

}  // namespace rewire::runtime
