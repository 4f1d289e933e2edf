// A file that appears under its name whole, or not at all: written without a name where the system can
// (O_TMPFILE), else under a random one that no other process has, then renamed. An old file under the name
// stays untouched until then.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "codegen/files/descriptor.h"

namespace rewire::codegen {

class ReplacingFile {
 public:
  /// In a folder that is open (O_PATH will do) for as long as this lives. `mode` as for open(2).
  ReplacingFile(int folder, std::string name, mode_t mode);
  /// Uncommitted, it leaves nothing behind.
  ~ReplacingFile();
  ReplacingFile(const ReplacingFile&) = delete;
  ReplacingFile& operator=(const ReplacingFile&) = delete;

  enum class Durability : std::uint8_t { none, synced };
  /// False once anything has failed; then error() is its errno and nothing is renamed.
  bool write(std::string_view bytes);
  bool commit(Durability durability);
  int error() const { return error_; }

  /// A name for what is half-written, ".rewire-" and 16 hexadecimal digits, and ".tmp": new with each call.
  static std::string temporary_name();

 private:
  bool fail();
  bool give_name();

  int folder_;
  std::string name_, temporary_;  // "": it has no name
  Descriptor file_;
  int error_ = 0;
};

/// All of it; false and errno where a write fails.
bool write_all(int file, std::string_view bytes);

}  // namespace rewire::codegen
