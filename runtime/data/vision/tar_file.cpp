// The ustar format of POSIX.1-1988. An entry is a header block of 512 bytes, then the entry's
// bytes and zeros up to a whole block. Two blocks of zeros end the file, which is a whole
// number of records of 20 blocks.
#include "runtime/data/vision/tar_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ir/error.h"

namespace rewire::runtime {
namespace {

constexpr std::uint64_t kUstarBlock = 512, kUstarRecord = 20 * kUstarBlock;
constexpr std::size_t kUstarName = 100;
constexpr std::uint64_t kMostUstarBytes = (std::uint64_t{1} << 33) - 1;  // eleven octal digits

std::array<std::byte, kUstarBlock> ustar_header(std::string_view name, std::uint64_t bytes) {
  std::array<std::byte, kUstarBlock> header{};
  const auto put = [&header](std::size_t at, std::string_view text) {
    std::ranges::copy(std::as_bytes(std::span(text)), header.begin() + static_cast<std::ptrdiff_t>(at));
  };
  put(0, name);
  put(100, "0000644");  // its mode, then its owner and their group
  put(108, "0000000");
  put(116, "0000000");
  put(124, fmt::format("{:011o}", bytes));
  put(136, "00000000000");  // when it was changed
  put(148, "        ");     // the sum, which counts itself as spaces
  put(156, "0");            // a file
  put(257, std::string_view("ustar\0"
                            "00",
                            8));
  std::uint32_t sum = 0;
  for (const std::byte value : header) sum += std::to_integer<std::uint32_t>(value);
  put(148, std::string_view(fmt::format("{:06o}", sum)));
  header[154] = std::byte{0};
  return header;
}

}  // namespace

std::uint64_t TarFile::size_of_entry(std::uint64_t bytes) {
  return kUstarBlock + (bytes + kUstarBlock - 1) / kUstarBlock * kUstarBlock;
}

void TarFile::add(std::string_view name, std::span<const std::byte> bytes) {
  if (name.empty() || name.size() > kUstarName)
    internal_error("a tar entry's name of {} bytes is too long", name.size());
  if (bytes.size() > kMostUstarBytes)
    user_error("cannot write {}: {} bytes are too many", path_, bytes.size());
  write(ustar_header(name, bytes.size()));
  write(bytes);
  pad(kUstarBlock);
}

void TarFile::commit() {
  constexpr std::array<std::byte, 2 * kUstarBlock> kEnd{};
  write(kEnd);
  pad(kUstarRecord);
  file_.commit();
}

void TarFile::write(std::span<const std::byte> bytes) {
  file_.write(bytes);
  size_ += bytes.size();
}

void TarFile::pad(std::uint64_t to) {
  constexpr std::array<std::byte, kUstarRecord> kZeros{};
  write(std::span(kZeros).first(static_cast<std::size_t>((to - size_ % to) % to)));
}

}  // namespace rewire::runtime
