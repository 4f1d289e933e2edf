// Cuts the result of a matrix product into tasks, by its shape alone.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "codegen/program.h"

namespace rewire::runtime {

/// A cut of `extent` into pieces that are multiples of `multiple` and differ by at most one; the last may be
/// short.
struct Cut {
  std::int64_t extent = 1, multiple = 1, pieces = 1;
  std::int64_t size = 1;  // size of the largest piece

  Cut() = default;
  Cut(std::int64_t whole, std::int64_t wanted, std::int64_t of) : extent(whole), multiple(of) {
    pieces = std::clamp<std::int64_t>(wanted, 1, units());
    size = (units() + pieces - 1) / pieces * multiple;
  }
  std::int64_t begin(std::int64_t piece) const { return piece * units() / pieces * multiple; }
  std::int64_t size_of(std::int64_t piece) const { return std::min(begin(piece + 1), extent) - begin(piece); }

 private:
  std::int64_t units() const { return (extent + multiple - 1) / multiple; }
};

/// A cut into blocks of rows x columns. A task packs its rows of a and its columns of b, so this work per
/// product is proportional to 1 / rows + 1 / columns.
struct MatrixCut {
  Cut rows, columns;

  /// Returns the squarest cut into about `most` blocks, a power of two; pieces of columns have at least
  /// `least_columns`.
  static MatrixCut squarest(std::int64_t m, std::int64_t n, std::int64_t most, std::int64_t row_multiple,
                            std::int64_t column_multiple, std::int64_t least_columns) {
    const auto pieces = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(most)));
    const auto split = [&](std::int64_t across) {
      return MatrixCut{Cut(m, pieces / across, row_multiple), Cut(n, across, column_multiple)};
    };
    MatrixCut best = split(1);
    for (std::int64_t across = 2; across <= pieces; across *= 2) {
      const MatrixCut other = split(across);
      if (n >= across * least_columns && other.edge() < best.edge()) best = other;
    }
    return best;
  }
  std::int64_t blocks() const { return rows.pieces * columns.pieces; }
  double edge() const {
    return 1.0 / static_cast<double>(rows.size) + 1.0 / static_cast<double>(columns.size);
  }
};

/// Returns the elements from the buffer's start to matrix `index` of a batch. `shape` has the batch's
/// extents, then the matrix's two, like the product's result.
inline std::int64_t matrix_offset(const codegen::View& view, const ir::Shape& shape, std::int64_t index) {
  std::int64_t offset = view.offset;
  for (std::size_t d = shape.size() - 2; d-- > 0;) {
    offset += index % shape[d] * view.strides[d];
    index /= shape[d];
  }
  return offset;
}

}  // namespace rewire::runtime
