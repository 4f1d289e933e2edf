// Atomic file replacement, and reads that report what went wrong.
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

/// Returns the whole file. Throws UserError if it cannot be read ("cannot read FILE: No such file or
/// directory"), is a pipe or device that the user did not name, or has more than `most` bytes (a pipe 2 GiB,
/// a device 16 MiB); no more than that is read.
std::vector<std::byte> read_file(const FilePlace& place,
                                 std::size_t most = std::numeric_limits<std::size_t>::max());
/// Writes an unnamed file in the same folder, then fsync, rename, fsync of the folder. Throws UserError with
/// the file's name and the system's reason; then nothing remains and an old file is unchanged.
void write_file_atomically(const FilePlace& place, std::span<const std::byte> bytes);
void write_file_atomically(const FilePlace& place, std::string_view text);

/// Writes a file atomically in pieces, so that a large file is never in memory twice: write() each piece,
/// then commit(). Without commit() it leaves nothing. Follows a symbolic link, and writes a device or pipe
/// in place; neither is replaced by a file. Below an untrusted folder (place.h) all three are refused.
class AtomicFile {
 public:
  explicit AtomicFile(const FilePlace& place);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void commit();
  /// Returns the BLAKE3 digest of the bytes written, 64 hexadecimal digits.
  std::string digest() const { return digest_.hex(); }

 private:
  [[noreturn]] void fail(int error) const;

  std::string path_;                              // as given, for messages
  codegen::Descriptor device_;                    // a device or pipe, written in place
  codegen::Descriptor folder_;                    // the folder of file_, links followed
  std::unique_ptr<codegen::ReplacingFile> file_;  // the new file; nullptr for a device
  codegen::Digest digest_;
};

/// Throws UserError with the system's reason if no file can be written at `path`: for use before any work.
/// Leaves nothing and does not touch an existing file.
void require_writable(const FilePlace& place);

/// Makes the folder and its missing parents, synced against a loss of power; below an untrusted folder, only
/// the last. Returns true if it did not exist. Throws UserError with the system's reason if one cannot be
/// made.
bool make_folder(const FilePlace& place);
/// Syncs the folder, so that changes of its names are on disk, where the system supports it.
void sync_folder(const std::string& path);

/// Returns text from a file for a one-line message: escaped by visible() of ir/printable.h, cut after 80
/// bytes.
std::string printable(std::string_view text);

}  // namespace rewire::runtime
