// The safetensors format: an 8-byte little-endian header length, a JSON header {name: {dtype, shape,
// data_offsets}}, then the data. Our own small reader and writer; nothing is allocated from a size that the
// file merely claims.
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

/// UserError naming the file and the fault: short file, header length beyond the file, bad JSON, unknown
/// dtype, negative or overflowing shape, offsets out of range, overlapping, leaving holes, or not shape x
/// dtype bytes. A tensor without elements is refused too: no extent of ours is 0.
SafetensorsFile parse_safetensors(std::span<const std::byte> bytes, const std::string& file_name);
SafetensorsFile read_safetensors(const FilePlace& place);
/// Tensors in the reference library's order (wide dtypes first, then by name), so that each is aligned to its
/// own elements; the data 64-byte aligned by padding the header with spaces. Written atomically (temporary
/// name, fsync, rename). Returns the BLAKE3 of the file, 64 hexadecimal digits.
std::string write_safetensors(const FilePlace& place, const TensorMap& tensors,
                              const std::map<std::string, std::string>& metadata = {});

}  // namespace rewire::runtime
