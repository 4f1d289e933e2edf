// Compares an engine's cast with its definition (cast_edges.h), value by value.
#pragma once

#include <cmath>

#include "runtime/io/host_tensor.h"
#include "tests/support/cast_edges.h"
#include "tests/support/catch.h"

namespace rewire::testing {

inline std::int64_t integer_at(const runtime::HostTensor& tensor, std::size_t i) {
  switch (tensor.type().dtype) {
    case ir::DType::i64:
      return tensor.as<std::int64_t>()[i];
    case ir::DType::i32:
      return tensor.as<std::int32_t>()[i];
    default:
      return tensor.as<std::uint8_t>()[i];
  }
}

/// Integers must be exact; floats must be one rounding of the value, any NaN for a NaN.
inline void check_cast(const CastEdges& edges, const runtime::HostTensor& actual) {
  for (std::size_t i = 0; i < edges.input.data.size(); ++i) {
    const double value = edges.input.data[i];
    INFO(ir::dtype_name(edges.from) << " " << value << " to " << ir::dtype_name(edges.to));
    if (ir::is_float(edges.to)) {
      const double converted = runtime::to_double(actual).data[i], expected = ir::round_to(edges.to, value);
      CHECK((converted == expected || (std::isnan(converted) && std::isnan(expected))));
    } else {
      CHECK(integer_at(actual, i) == integer_cast_of(value, edges.to));
    }
  }
}

}  // namespace rewire::testing
