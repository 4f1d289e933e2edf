// Writes IDX files, whole or broken, for the tests of the reader.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ir/error.h"

namespace rewire::test {

/// An IDX header: magic with the element type and rank, and the extents.
inline std::string idx_header(const std::vector<std::uint32_t>& shape, char element_type = 0x08) {
  std::string text{'\0', '\0', element_type, static_cast<char>(shape.size())};
  for (const std::uint32_t extent : shape) {
    for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(extent >> shift & 0xff);
  }
  return text;
}

/// One gzip stream of `text`.
inline std::string gzip(const std::string& text) {
  z_stream stream{};
  constexpr int kGzipWrapper = 16;
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, MAX_WBITS + kGzipWrapper, 8,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    internal_error("deflateInit2 failed");
  }
  std::string packed(deflateBound(&stream, static_cast<uLong>(text.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) internal_error("deflate failed");
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace rewire::test
