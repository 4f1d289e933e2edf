// A file that grows by whole records during a run, and is cut back to the size that a checkpoint recorded:
// metrics.jsonl, the event file, log.txt.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "codegen/files/descriptor.h"
#include "runtime/io/place.h"

namespace rewire::runtime {

class AppendedFile {
 public:
  /// Keeps the first `bytes` of the file and appends after them. `holds`: the end of the message if it is no
  /// regular file. Throws UserError if the file cannot be written, is no regular file or is shorter.
  AppendedFile(const FilePlace& place, std::int64_t bytes, std::string_view holds);

  /// Appends the whole piece, in one write if the system accepts it. Throws UserError, and appends nothing,
  /// if there is no room.
  void append(std::string_view piece);
  /// Syncs all pieces to disk and returns the size in bytes.
  std::int64_t sync();
  std::int64_t bytes() const { return bytes_; }

 private:
  std::string path_;
  codegen::Descriptor file_;
  std::int64_t bytes_ = 0;
};

}  // namespace rewire::runtime
