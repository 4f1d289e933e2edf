// Files that are never half-written, and reads that say what went wrong.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rewire::runtime {

/// The whole file. UserError: "cannot read FILE: No such file or directory", and on a file of more than
/// `most` bytes, of which no more than that are read.
std::vector<std::byte> read_file(const std::string& path,
                                 std::size_t most = std::numeric_limits<std::size_t>::max());
/// Temporary name in the same folder, write, fsync, rename, fsync of the folder. UserError naming the
/// file and the system's reason; the temporary file is removed and an old file survives untouched.
void write_file_atomically(const std::string& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::string& path, std::string_view text);

/// The same in pieces, so that a large file never stands in memory twice: write() what there is, commit()
/// at the end. Destroyed uncommitted, it leaves nothing behind. A symbolic link is followed, and a device or
/// pipe is written in place: neither is replaced by a file.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  [[noreturn]] void fail(std::string_view action) const;
  void close_descriptor();

  std::string path_;       // as asked for, for messages
  std::string target_;     // what is replaced: path_ with links followed
  std::string temporary_;  // beside target_; empty once renamed, or when written in place
  int descriptor_ = -1;
};

/// Before work is spent on what goes to `path`: UserError if no file can be written there, with the system's
/// reason. Leaves nothing behind and does not touch a file that is there.
void require_writable(const std::string& path);

/// With all above it, as far as they are not there: UserError with the system's reason where one cannot be
/// made.
void make_folder(const std::string& path);

/// Text from a file fit for a one-line message: as visible() of ir/printable.h, cut after 80 bytes.
std::string printable(std::string_view text);

}  // namespace rewire::runtime
