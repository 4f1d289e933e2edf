// Writes a file that appears under its name complete, or not at all. It is written without a name where the
// system can (O_TMPFILE), else under a random name that no other process has, then renamed. An old file of
// that name stays untouched until then.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "codegen/files/descriptor.h"

namespace rewire::codegen {

class ReplacingFile {
 public:
  /// Begins a file in an open folder (O_PATH suffices), which must outlive this. `mode` is as for open(2).
  ReplacingFile(int folder, std::string name, mode_t mode);
  /// Removes what was written, unless it was committed.
  ~ReplacingFile();
  ReplacingFile(const ReplacingFile&) = delete;
  ReplacingFile& operator=(const ReplacingFile&) = delete;

  enum class Durability : std::uint8_t { none, synced };
  /// Returns false once anything has failed; error() is then its errno, and nothing is renamed.
  bool write(std::string_view bytes);
  bool commit(Durability durability);
  int error() const { return error_; }

  /// Returns a new name for a half-written file: ".rewire-", 16 hexadecimal digits and ".tmp".
  static std::string temporary_name();

 private:
  bool fail();
  bool give_name();

  int folder_;
  std::string name_, temporary_;  // "": the file has no name
  Descriptor file_;
  int error_ = 0;
};

/// Writes all bytes. Returns false, with errno set, if a write fails.
bool write_all(int file, std::string_view bytes);

}  // namespace rewire::codegen
