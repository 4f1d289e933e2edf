// NumPy's .npy files, versions 1.0 to 3.0, C order: f8 f4 f2 i8 i4 u1 b1, little-endian.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/io/host_tensor.h"
#include "runtime/io/place.h"

namespace rewire::runtime {

/// Reads an array. Throws UserError with the file's name and the fault (magic, version, header, dtype,
/// Fortran order, a wrong size).
HostTensor parse_npy(std::span<const std::byte> bytes, const std::string& file_name);
HostTensor read_npy(const FilePlace& place);

/// What the header of an array says, for element types that tensors do not have.
struct NpyHeader {
  std::string descr;  // NumPy's name of the element type, "<u2"
  ir::Shape shape;
  std::size_t first = 0;  // byte of the elements
};
/// Reads the header of an array in C order. Throws UserError with the file's name and the fault.
NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::string& file_name);

/// Reads single rows of an array on disk, along its first axis: the file may be larger than memory.
/// Thread-safe.
class NpyRows {
 public:
  /// Throws UserError like read_npy, and for a single number or booleans.
  explicit NpyRows(const std::string& path);
  ~NpyRows();
  std::int64_t count() const;
  /// The type of one row.
  const ir::TensorType& type() const;
  /// Reads row `index`, of type(). Throws UserError if the file has changed.
  void read(std::int64_t index, std::span<std::byte> out) const;

 private:
  struct File;
  std::unique_ptr<const File> file_;
};

void write_npy(const std::string& path, const HostTensor& tensor);  // atomically; bf16 is written as f4

}  // namespace rewire::runtime
