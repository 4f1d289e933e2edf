// Writes a tar file whose bytes depend on its entries alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runtime/io/files.h"

namespace rewire::runtime {

class TarFile {
 public:
  explicit TarFile(const std::string& path) : path_(path), file_(path) {}

  /// Returns an entry's size in the file.
  static std::uint64_t size_of_entry(std::uint64_t bytes);

  /// Adds an entry; `name` has at most 100 bytes. Throws UserError if the file cannot be written.
  void add(std::string_view name, std::span<const std::byte> bytes);
  void commit();
  std::uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  void write(std::span<const std::byte> bytes);
  void pad(std::uint64_t to);

  std::string path_;
  AtomicFile file_;
  std::uint64_t size_ = 0;
};

}  // namespace rewire::runtime
