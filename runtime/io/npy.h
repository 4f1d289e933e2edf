// NumPy's .npy, versions 1.0 to 3.0, C order: f8 f4 f2 i8 i4 u1 b1, little-endian.
#pragma once

#include <span>
#include <string>

#include "runtime/io/host_tensor.h"
#include "runtime/io/place.h"

namespace rewire::runtime {

/// UserError naming the file and the fault (magic, version, header, dtype, Fortran order, size against the
/// file).
HostTensor parse_npy(std::span<const std::byte> bytes, const std::string& file_name);
HostTensor read_npy(const FilePlace& place);
void write_npy(const std::string& path, const HostTensor& tensor);  // atomically; bf16 is written as f4

}  // namespace rewire::runtime
