// libarchive reads the headers. It requests bytes and reports what it skips. So only a small block is read
// after a header, and libarchive's count of consumed bytes is the offset of an entry's bytes.
#include "runtime/data/vision/tar_index.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

#include "codegen/files/descriptor.h"
#include "ir/error.h"
#include "ir/printable.h"
#include "runtime/data/vision/image_file.h"
#include "runtime/data/vision/sources/image_files.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

constexpr std::size_t kTarBlock = 512;
constexpr std::size_t kReadBlock = 4 * kTarBlock;  // a label and the headers around it
constexpr std::size_t kMostLabel = 64;             // bytes of a .cls

/// The file as libarchive reads it.
class ShardFile {
 public:
  explicit ShardFile(const std::string& path) : path_(path) {
    file_ = codegen::Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file_ || ::fstat(file_.get(), &status_) != 0) fail();
    if (S_ISDIR(status_.st_mode)) user_error("{}: it is a folder, not a shard", visible(path));
    if (!S_ISREG(status_.st_mode)) user_error("{}: it is a pipe or a device, not a shard", visible(path));
    static_cast<void>(::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_RANDOM));  // nothing is read ahead
  }

  const struct stat& status() const { return status_; }
  std::uint64_t size() const { return static_cast<std::uint64_t>(status_.st_size); }
  std::uint64_t bytes_read() const { return bytes_read_; }

  /// Fills `out` from `offset` on and returns its size, or less at the end.
  std::size_t read_at(std::uint64_t offset, std::span<std::byte> out) {
    std::size_t done = 0;
    while (done < out.size()) {
      const ssize_t count =
          ::pread(file_.get(), out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail();
      if (count == 0) break;
      done += static_cast<std::size_t>(count);
    }
    bytes_read_ += done;
    return done;
  }

  /// Returns bytes up to a whole tar block: the zeros at the end of the file may be fewer.
  std::span<const std::byte> next_block() {
    const std::size_t count = read_at(position_, block_);
    position_ += count;
    const std::size_t whole = (count + kTarBlock - 1) / kTarBlock * kTarBlock;
    std::fill(block_.begin() + static_cast<std::ptrdiff_t>(count),
              block_.begin() + static_cast<std::ptrdiff_t>(whole), std::byte{0});
    return std::span(block_).first(whole);
  }
  std::uint64_t skip(std::int64_t bytes) {
    const std::uint64_t rest = size() - std::min(size(), position_);
    const std::uint64_t skipped =
        std::min(rest, static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0)));
    position_ += skipped;
    return skipped;
  }

 private:
  [[noreturn]] void fail() const {
    user_error("cannot read {}: {}", visible(path_), std::generic_category().message(errno));
  }

  std::string path_;
  codegen::Descriptor file_;
  struct stat status_{};
  std::uint64_t position_ = 0, bytes_read_ = 0;
  std::array<std::byte, kReadBlock> block_{};
};

/// The data of libarchive's callbacks. Exceptions must not pass through C, so `error` keeps them.
struct ShardCallbacks {
  ShardFile& file;
  std::exception_ptr error = nullptr;
};

la_ssize_t give_block(archive* reader, void* data, const void** block) {
  auto& callbacks = *static_cast<ShardCallbacks*>(data);
  try {
    const std::span<const std::byte> bytes = callbacks.file.next_block();
    *block = bytes.data();
    return static_cast<la_ssize_t>(bytes.size());
  } catch (...) {
    callbacks.error = std::current_exception();
    archive_set_error(reader, EIO, "it cannot be read");
    return -1;
  }
}

la_int64_t skip_bytes(archive*, void* data, la_int64_t bytes) {
  return static_cast<la_int64_t>(static_cast<ShardCallbacks*>(data)->file.skip(bytes));
}

struct FreeArchive {
  void operator()(archive* reader) const { archive_read_free(reader); }
};

enum class EntryKind : std::uint8_t { image, label, dotted_image, other_image, other };

/// `ending`: the part of the name after the key.
EntryKind kind_of_ending(std::string_view ending) {
  const bool has_dot = ending.find('.', 1) != std::string_view::npos;
  if (is_image_name(ending)) return has_dot ? EntryKind::dotted_image : EntryKind::image;
  if (is_other_image_name(ending)) return EntryKind::other_image;
  return lower_case(ending) == ".cls" ? EntryKind::label : EntryKind::other;
}

class ShardIndexer {
 public:
  explicit ShardIndexer(const std::string& path) : file_(path), callbacks_{file_} {
    index_.path = path;
    index_.file_size = file_.size();
    index_.modified_ns = file_.status().st_mtim.tv_sec * 1'000'000'000 + file_.status().st_mtim.tv_nsec;
  }

  ShardIndex run() {
    refuse_compressed();
    open();
    archive_entry* entry = nullptr;
    while (next(entry)) add(entry);
    finish_sample();
    check_end();
    if (index_.images.empty()) {
      user_error(
          "{}: it holds no images: KEY.jpg, KEY.jpeg or KEY.png, where KEY ends at the first dot of a name{}",
          shard(), index_.unread.empty() ? "" : "; it holds " + unread_text(index_.unread));
    }
    index_.images.shrink_to_fit();
    index_.names.shrink_to_fit();
    index_.bytes_read = file_.bytes_read();
    return std::move(index_);
  }

 private:
  std::string shard() const { return visible(index_.path); }

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    user_error("{}: {}: {}", shard(), printable(key_), fmt::format(format, std::forward<Args>(args)...));
  }

  void refuse_compressed() {
    std::array<std::byte, 10> begin{};
    const std::size_t count = file_.read_at(0, begin);
    const std::string_view text(reinterpret_cast<const char*>(begin.data()), count);
    const bool is_bzip2 = text.size() == begin.size() && text.starts_with("BZh") && text.ends_with("1AY&SY");
    const bool is_other = text.starts_with("\x1f\x8b") ||
                          text.starts_with(
                              "\xfd"
                              "7zXZ") ||
                          text.starts_with("\x28\xb5\x2f\xfd");
    if (is_bzip2 || is_other) {
      user_error(
          "{}: it is compressed, but images are read from the middle of a shard: unpack it to a plain tar "
          "file",
          shard());
    }
    if (count == 0) user_error("{}: it is empty: download the shard again", shard());
  }

  void open() {
    reader_.reset(archive_read_new());
    if (!reader_) throw std::bad_alloc();
    archive_read_support_format_tar(reader_.get());
    archive_read_set_format_option(reader_.get(), "tar", "read_concatenated_archives", "1");
    archive_read_set_read_callback(reader_.get(), give_block);
    archive_read_set_skip_callback(reader_.get(), skip_bytes);
    archive_read_set_callback_data(reader_.get(), &callbacks_);
    if (archive_read_open1(reader_.get()) != ARCHIVE_OK) fail_reading();
  }

  [[noreturn]] void fail_reading() const {
    if (callbacks_.error) std::rethrow_exception(callbacks_.error);
    const char* reason = archive_error_string(reader_.get());
    user_error("{}: not a complete tar file: {} at byte {} of {}; download the shard again", shard(),
               printable(reason == nullptr ? "damaged" : reason), archive_filter_bytes(reader_.get(), 0),
               index_.file_size);
  }

  bool next(archive_entry*& entry) {
    const int code = archive_read_next_header(reader_.get(), &entry);
    if (callbacks_.error) fail_reading();
    if (code == ARCHIVE_EOF) return false;
    // A warning concerns a name's characters, or an attribute that is not used here.
    if (code != ARCHIVE_OK && code != ARCHIVE_WARN) fail_reading();
    return true;
  }

  /// Throws UserError unless a block of zeros follows the last entry. It is missing if the file was
  /// truncated between two entries, or after a header that belongs to the next one.
  void check_end() {
    const auto end = static_cast<std::uint64_t>(archive_read_header_position(reader_.get()));
    std::array<std::byte, kTarBlock> block{};
    const bool is_whole = file_.read_at(end, block) == block.size();
    if (!is_whole || std::ranges::any_of(block, [](std::byte value) { return value != std::byte{0}; }))
      user_error("{}: truncated: it ends at byte {} without a tar file's end; download the shard again",
                 shard(), index_.file_size);
  }

  std::string name_of(archive_entry* entry) const {
    const char* name = archive_entry_pathname(entry);
    if (name == nullptr) name = archive_entry_pathname_utf8(entry);
    if (name == nullptr) user_error("{}: an entry has a name that is not text", shard());
    return name;
  }

  void add(archive_entry* entry) {
    const std::string name = name_of(entry);
    const std::size_t slash = name.rfind('/');
    const std::size_t base = slash == std::string::npos ? 0 : slash + 1;
    const std::size_t dot = name.find('.', base);
    if (dot == base && is_image_name(name)) ++index_.unread["hidden"];
    if (dot == std::string::npos || dot == base) return;  // a folder, or of no sample
    begin_sample(name.substr(0, dot));
    const EntryKind kind = kind_of_ending(std::string_view(name).substr(dot));
    if (kind == EntryKind::image) {
      add_image(name, body_of(entry, name));
    } else if (kind == EntryKind::label) {
      add_label(body_of(entry, name));
    } else if (kind == EntryKind::dotted_image) {
      if (++dotted_ == 1) first_dotted_ = name;
    } else if (kind == EntryKind::other_image) {
      other_image_ = "." + suffix_of(name);
    }
  }

  /// Entries of one key must follow each other, or webdataset would take them for two samples. A whole
  /// sample may come again, as when two tar files are concatenated.
  void begin_sample(std::string key) {
    if (in_sample_ && key == key_) return;
    finish_sample();
    key_ = std::move(key);
    in_sample_ = true;
  }

  void finish_sample() {
    if (!in_sample_) return;
    if (has_image_ && !has_label_)
      fail("an image without a .cls next to it (do a sample's entries follow each other?)");
    if (has_label_ && !has_image_ && other_image_.empty())
      fail("a .cls without an image next to it (do a sample's entries follow each other?)");
    const auto [earlier, is_new] = wholes_.try_emplace(key_, has_image_);
    if (!is_new && earlier->second != has_image_) fail("its entries do not follow each other in the shard");
    if (has_image_) {
      image_.name_end = index_.names.size();
      index_.images.push_back(image_);
    } else {
      note_unread();
    }
    image_ = {};
    in_sample_ = has_image_ = has_label_ = false;
    dotted_ = 0;
    other_image_.clear();
  }

  /// Counts what looks like an image in a sample without one.
  void note_unread() {
    if (!other_image_.empty()) ++index_.unread[other_image_];
    if (dotted_ == 0) return;
    index_.unread["with a dot in the key"] += dotted_;
    if (index_.dotted.empty()) index_.dotted = first_dotted_;
  }

  struct Body {
    std::uint64_t offset, size;
  };
  Body body_of(archive_entry* entry, const std::string& name) const {
    const std::string ending = printable(std::string_view(name).substr(key_.size()));
    if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) != nullptr)
      fail("its {} is not a regular file", ending);
    if (archive_entry_sparse_count(entry) > 0) fail("its {} is sparse", ending);
    const std::int64_t size = archive_entry_size(entry), offset = archive_filter_bytes(reader_.get(), 0);
    if (size == 0) fail("its {} is empty", ending);
    if (size < 0 || offset < 0) fail("its {} has no size", ending);
    const auto begin = static_cast<std::uint64_t>(offset), bytes = static_cast<std::uint64_t>(size);
    if (begin > index_.file_size || bytes > index_.file_size - begin) {
      fail("truncated: its {} of {} bytes begins at byte {}, but the file has {}; download the shard again",
           ending, size, offset, index_.file_size);
    }
    if (bytes > kMostImageBytes)  // claimed by the header, which may be wrong
      fail("its {} has {} bytes: more than the {} that an image may have", ending, size, kMostImageBytes);
    return {begin, bytes};
  }

  void add_image(const std::string& name, const Body& body) {
    if (has_image_) fail("two images");
    has_image_ = true;
    image_.offset = body.offset;
    image_.size = static_cast<std::uint32_t>(body.size);
    index_.names += name;
  }

  void add_label(const Body& body) {
    if (has_label_) fail("two .cls");
    has_label_ = true;
    std::array<char, kMostLabel> text{};
    if (body.size > text.size()) fail("its .cls has {} bytes, too many for a number", body.size);
    const auto size = static_cast<std::size_t>(body.size);
    const la_ssize_t count = archive_read_data(reader_.get(), text.data(), size);
    if (callbacks_.error || count != static_cast<la_ssize_t>(size)) fail_reading();
    std::string_view digits(text.data(), size);
    digits = digits.substr(0, digits.find_last_not_of(" \t\r\n") + 1);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), image_.label);
    if (digits.empty() || read.ec != std::errc() || read.ptr != digits.data() + digits.size() ||
        image_.label < 0)
      fail("its .cls is '{}', not the number of a class", printable(std::string_view(text.data(), size)));
  }

  ShardFile file_;
  ShardCallbacks callbacks_;
  std::unique_ptr<archive, FreeArchive> reader_;
  ShardIndex index_;
  std::unordered_map<std::string, bool> wholes_;  // by key: whether there was an image and a label
  // The sample that is being read.
  bool in_sample_ = false, has_image_ = false, has_label_ = false;
  std::int64_t dotted_ = 0;  // images with a dot in the key
  std::string key_, other_image_, first_dotted_;
  ShardImage image_;
};

}  // namespace

std::string_view ShardIndex::name(std::size_t image) const {
  const std::uint64_t begin = image == 0 ? 0 : images[image - 1].name_end;
  return std::string_view(names).substr(begin, images[image].name_end - begin);
}

ShardIndex index_shard(const std::string& path) {
  return ShardIndexer(path).run();
}

std::vector<ShardIndex> index_shards(const std::vector<std::string>& paths) {
  constexpr std::size_t kMostThreads = 8;
  std::vector<ShardIndex> all(paths.size());
  std::vector<std::exception_ptr> errors(paths.size());
  std::atomic<std::size_t> claimed = 0;
  std::atomic<bool> failed = false;
  // Shards are claimed in order, so that all before the first refused one are read, whatever the threads do.
  // libarchive's readers share only a counter of inode numbers, which is not used.
  const auto work = [&] {
    while (!failed) {
      const std::size_t at = claimed++;
      if (at >= paths.size()) return;
      try {
        all[at] = index_shard(paths[at]);
      } catch (...) {
        errors[at] = std::current_exception();
        failed = true;
      }
    }
  };
  {
    const std::size_t threads =
        std::min(kMostThreads, paths.size());  // they wait for the disk, not for a core
    std::vector<std::jthread> others;
    try {
      while (others.size() + 1 < threads) others.emplace_back(work);
    } catch (const std::system_error&) {  // no more threads: the existing ones do it
    }
    work();
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return all;
}

}  // namespace rewire::runtime
