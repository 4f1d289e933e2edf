// Reads the bytes of a plain or gzip file in order. The reader of a format takes them a piece at a time, so
// that it never trusts a size before the bytes are there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace rewire::runtime {

class ByteSource {
 public:
  /// `file` must outlive the source. It is read as gzip if it begins with gzip's magic 1f 8b.
  ByteSource(std::span<const std::byte> file, const std::string& file_name);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// Fills `out` and returns its size, or less at the end. Throws UserError on truncated or corrupt gzip
  /// data.
  std::size_t read(std::span<std::byte> out);
  /// Bounds the bytes still to come: exact for a plain file; for gzip by deflate's best ratio, 1032 to 1.
  std::uint64_t at_most() const;
  bool is_gzip() const { return inflater_ != nullptr; }

 private:
  struct Inflater;
  std::span<const std::byte> rest_;
  std::string file_name_;
  std::unique_ptr<Inflater> inflater_;
};

}  // namespace rewire::runtime
