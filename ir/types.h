// Element types, shapes and tensor types. A tensor type is static: the JIT specialises every program to its
// shapes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rewire::ir {

enum class DType : std::uint8_t { f64, f32, bf16, f16, i64, i32, u8, i1 };

/// Returns "f32", "bf16", …, the spelling of the text form.
std::string_view dtype_name(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);
/// Returns the bytes of one element in memory; i1 takes one byte.
std::size_t dtype_bytes(DType dtype);
bool is_float(DType dtype);
bool is_integer(DType dtype);  // i64, i32, u8; not i1

/// Extents, outermost first, each >= 1. Rank 0 (empty) is a scalar.
using Shape = std::vector<std::int64_t>;

/// Returns the product of the extents; 1 for a scalar.
std::int64_t element_count(const Shape& shape);
/// Returns row-major strides in elements.
Shape row_major_strides(const Shape& shape);

struct TensorType {
  DType dtype = DType::f32;
  Shape shape;

  std::int64_t elements() const { return element_count(shape); }
  std::int64_t bytes() const { return elements() * static_cast<std::int64_t>(dtype_bytes(dtype)); }
  int rank() const { return static_cast<int>(shape.size()); }
  bool operator==(const TensorType&) const = default;
};

/// Returns "f32[64,50,192]"; for a scalar "f32[]".
std::string to_string(const TensorType& type);
std::string to_string(const Shape& shape);  // "[64,50,192]"

}  // namespace rewire::ir
