// NumPy's .npy, versions 1.0 to 3.0, C order: f8 f4 f2 i8 i4 u1 b1, little-endian.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/io/host_tensor.h"
#include "runtime/io/place.h"

namespace rewire::runtime {

/// UserError naming the file and the fault (magic, version, header, dtype, Fortran order, size against the
/// file).
HostTensor parse_npy(std::span<const std::byte> bytes, const std::string& file_name);
HostTensor read_npy(const FilePlace& place);

/// The rows of an array on disk, along its first axis, read one by one: the file may be larger than memory. From several threads at
/// once.
class NpyRows {
 public:
  /// UserError as of read_npy, on a single number, and on truth values.
  explicit NpyRows(const std::string& path);
  ~NpyRows();
  std::int64_t count() const;
  /// Of a row.
  const ir::TensorType& type() const;
  /// Row `index`, of type(). UserError where the file has changed since.
  void read(std::int64_t index, std::span<std::byte> out) const;

 private:
  struct File;
  std::unique_ptr<const File> file_;
};

void write_npy(const std::string& path, const HostTensor& tensor);  // atomically; bf16 is written as f4

}  // namespace rewire::runtime
