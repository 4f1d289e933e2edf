// Reads the IDX format of the MNIST family: two zero bytes, the element type, the rank, each extent as a
// big-endian 32-bit number, then the elements. Only bytes (type 0x08) are read, plain or gzip.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rewire::runtime {

/// The folder of the Debian package dataset-fashion-mnist.
inline constexpr std::string_view kFashionMnistFolder = "/usr/share/datasets/fashion-mnist";

struct IdxArray {
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> data;  // one byte per element of `shape`
};

/// Parses a file. Throws UserError naming the file and the fault. Memory grows with the bytes that are
/// there, never with the size that the header claims.
IdxArray parse_idx(std::span<const std::byte> file, const std::string& file_name);

}  // namespace rewire::runtime
