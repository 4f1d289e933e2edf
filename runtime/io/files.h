// Files that are never half-written, and reads that say what went wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/files/descriptor.h"
#include "codegen/files/digest.h"
#include "codegen/files/replacing_file.h"
#include "runtime/io/place.h"

namespace rewire::runtime {

/// The whole file. UserError: "cannot read FILE: No such file or directory", on a pipe or a device that the user did not
/// name, and on a file of more than `most` bytes, of which no more than that are read; of a pipe never more than 2 GiB,
/// of a device 16 MiB.
std::vector<std::byte> read_file(const FilePlace& place,
                                 std::size_t most = std::numeric_limits<std::size_t>::max());
/// Written beside it without a name, fsync, rename, fsync of the folder. UserError naming the file and the
/// system's reason; nothing is left then, and an old file survives untouched.
void write_file_atomically(const FilePlace& place, std::span<const std::byte> bytes);
void write_file_atomically(const FilePlace& place, std::string_view text);

/// The same in pieces, so that a large file never stands in memory twice: write() what there is, commit()
/// at the end. Destroyed uncommitted, it leaves nothing behind. A symbolic link is followed, and a device or
/// pipe is written in place: neither is replaced by a file. Below a folder of others all three are refused.
class AtomicFile {
 public:
  explicit AtomicFile(const FilePlace& place);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void commit();
  /// BLAKE3 of what was written, 64 hexadecimal digits.
  std::string digest() const { return digest_.hex(); }

 private:
  [[noreturn]] void fail(int error) const;

  std::string path_;                              // as asked for, for messages
  codegen::Descriptor device_;                    // written in place, or:
  codegen::Descriptor folder_;                    // of file_, links followed
  std::unique_ptr<codegen::ReplacingFile> file_;  // the new one
  codegen::Digest digest_;
};

/// Before work is spent on what goes to `path`: UserError if no file can be written there, with the system's
/// reason. Leaves nothing behind and does not touch a file that is there.
void require_writable(const FilePlace& place);

/// With all above it, as far as they are not there, so that a loss of power does not take them away: true if
/// it was not there. Below a folder of others it is made alone. UserError with the system's reason where one cannot be
/// made.
bool make_folder(const FilePlace& place);
/// What was named in it, or removed from it, is so on the disk, where the system can say.
void sync_folder(const std::string& path);

/// Text from a file fit for a one-line message: as visible() of ir/printable.h, cut after 80 bytes.
std::string printable(std::string_view text);

}  // namespace rewire::runtime
