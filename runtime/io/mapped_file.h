// A file mapped into memory for reading: it may be larger than memory.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <span>
#include <string>

#include "codegen/files/descriptor.h"

namespace rewire::runtime {

class MappedFile {
 public:
  /// Throws UserError with the system's reason if it is not a regular file that can be read.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, static_cast<std::size_t>(status_.st_size)}; }
  const struct stat& status() const { return status_; }
  /// Returns false if the file was written to or truncated since it was mapped. Bytes past the end of a
  /// truncated file must not be read.
  bool is_unchanged() const;

 private:
  codegen::Descriptor file_;
  struct stat status_{};
  const std::byte* data_ = nullptr;
};

}  // namespace rewire::runtime
