// Implements ByteSource with zlib's inflate.
#include "runtime/data/vision/byte_source.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

#include "ir/error.h"

namespace rewire::runtime {

struct ByteSource::Inflater {
  z_stream stream{};
  bool finished = false;

  Inflater() {
    constexpr int kGzipOnly = 16;  // added to the window bits: the gzip wrapper and its checksum
    if (inflateInit2(&stream, MAX_WBITS + kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
};

ByteSource::ByteSource(std::span<const std::byte> file, const std::string& file_name)
    : rest_(file), file_name_(file_name) {
  constexpr std::byte kMagic[] = {std::byte{0x1f}, std::byte{0x8b}};
  if (file.size() >= 2 && std::equal(std::begin(kMagic), std::end(kMagic), file.begin())) {
    inflater_ = std::make_unique<Inflater>();
  }
}

ByteSource::~ByteSource() = default;

std::uint64_t ByteSource::at_most() const {
  constexpr std::uint64_t kBestRatio = 1032;  // deflate: 258 bytes from 2 bits
  constexpr std::uint64_t kHeldBack = 8;      // bytes that inflate has taken in and not yet given out
  return is_gzip() ? (rest_.size() + kHeldBack) * kBestRatio : rest_.size();
}

std::size_t ByteSource::read(std::span<std::byte> out) {
  if (!is_gzip()) {
    const std::size_t count = std::min(out.size(), rest_.size());
    if (count > 0) std::memcpy(out.data(), rest_.data(), count);
    rest_ = rest_.subspan(count);
    return count;
  }
  z_stream& stream = inflater_->stream;
  std::size_t filled = 0;
  while (filled < out.size() && !inflater_->finished) {
    constexpr std::size_t kLargest = std::numeric_limits<uInt>::max();
    const std::size_t in_size = std::min(rest_.size(), kLargest);
    const std::size_t out_size = std::min(out.size() - filled, kLargest);
    // zlib's interface is not const, but it only reads its input.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(rest_.data()));
    stream.avail_in = static_cast<uInt>(in_size);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + filled);
    stream.avail_out = static_cast<uInt>(out_size);
    const int status = inflate(&stream, Z_NO_FLUSH);
    rest_ = rest_.subspan(in_size - stream.avail_in);
    filled += out_size - stream.avail_out;
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    if (status == Z_BUF_ERROR) user_error("{}: truncated gzip data", file_name_);
    if (status != Z_OK && status != Z_STREAM_END) {
      user_error("{}: corrupt gzip data: {}", file_name_, stream.msg == nullptr ? "bad stream" : stream.msg);
    }
    if (status == Z_STREAM_END) {
      // A gzip file may be several streams one after the other.
      inflater_->finished = rest_.empty();
      if (!inflater_->finished) inflateReset(&stream);
    }
  }
  return filled;
}

}  // namespace rewire::runtime
