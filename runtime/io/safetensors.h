// The safetensors format: an 8-byte little-endian header length, a JSON header {name: {dtype, shape,
// data_offsets}}, then the data. This reader never allocates memory by a size that the file only claims.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "runtime/io/host_tensor.h"
#include "runtime/io/place.h"

namespace rewire::runtime {

struct SafetensorsFile {
  TensorMap tensors;
  std::map<std::string, std::string> metadata;  // "__metadata__"
};

/// Reads a file. Throws UserError with its name and the fault: a short file, a header length beyond the
/// file, bad JSON, an unknown dtype, a negative or overflowing shape, or offsets that are out of range,
/// overlap, leave holes or differ from shape x dtype bytes. A tensor without elements is refused too: Rewire
/// has no extent 0.
SafetensorsFile parse_safetensors(std::span<const std::byte> bytes, const std::string& file_name);
SafetensorsFile read_safetensors(const FilePlace& place);
/// Writes tensors in the reference library's order (wide dtypes first, then by name), so that each is
/// aligned to its own elements. Spaces pad the header to align the data to 64 bytes. Atomic (temporary name,
/// fsync, rename). Returns the BLAKE3 digest of the file, 64 hexadecimal digits.
std::string write_safetensors(const FilePlace& place, const TensorMap& tensors,
                              const std::map<std::string, std::string>& metadata = {});

}  // namespace rewire::runtime
