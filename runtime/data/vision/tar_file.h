// Writes a tar file whose bytes are a function of its entries: no times, no owners.
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

  /// What an entry of that many bytes takes in the file.
  static std::uint64_t size_of_entry(std::uint64_t bytes);

  /// `name` has at most 100 bytes. UserError where the file cannot be written.
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
