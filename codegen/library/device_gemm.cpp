#include "codegen/library/device_gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "codegen/cost.h"

namespace rewire::codegen {
namespace {

constexpr std::int64_t kBufferAlignment = 64;  // bytes

/// An axis along which products are alike, with the distances between them in a, b and c.
struct Axis {
  std::int64_t extent = 1;
  std::array<std::int64_t, 3> strides{};  // of a, b, c, in elements

  std::int64_t a() const { return strides[0]; }
  std::int64_t b() const { return strides[1]; }
  std::int64_t c() const { return strides[2]; }
};

/// Joins two axes into one that walks through `inner` at each step of `outer`; nullopt if the strides do not
/// allow it.
std::optional<Axis> joined(const Axis& outer, const Axis& inner) {
  for (std::size_t i = 0; i < 3; ++i) {
    if (outer.strides[i] != inner.strides[i] * inner.extent) return std::nullopt;
  }
  return Axis{outer.extent * inner.extent, inner.strides};
}

/// A launch's axes of products, its rows, and the numbers that belong to no axis (n, k, a's column stride).
class Axes {
 public:
  explicit Axes(const GemmLaunch& launch)
      : n_(launch.c.shape.back()),
        k_(launch.a.shape.back()),
        a_column_(launch.a.strides.back()),
        rows_(axis(launch, launch.c.shape.size() - 2)) {
    rows_.strides[1] = 0;  // b does not depend on the rows
    for (std::size_t d = 0; d + 2 < launch.c.shape.size(); ++d) {
      if (launch.c.shape[d] > 1) batch_.push_back(axis(launch, d));
    }
    merge_into_rows();
    take_longest_rows();
    merge_batch();
    std::ranges::stable_sort(batch_, {}, &Axis::extent);  // the library's own batch comes last
  }

  const Axis& rows() const { return rows_; }
  const std::vector<Axis>& batch() const { return batch_; }

 private:
  static Axis axis(const GemmLaunch& launch, std::size_t d) {
    return {launch.c.shape[d], {launch.a.strides[d], launch.b.strides[d], launch.c.strides[d]}};
  }

  /// Returns whether an axis can be the rows: the elements of one row do not lie between those of another.
  bool can_be_rows(const Axis& rows) const {
    if (rows.extent == 1) return true;
    const bool a = a_column_ == 1 || k_ == 1 ? rows.a() >= k_ : rows.a() == 1 && a_column_ >= rows.extent;
    return a && rows.c() >= n_;
  }

  void merge_into_rows() {
    for (bool merged = true; merged;) {
      merged = false;
      for (std::size_t i = batch_.size(); i-- > 0 && !merged;) {
        if (batch_[i].b() != 0) continue;
        std::optional<Axis> rows = rows_.extent == 1 ? batch_[i] : joined(batch_[i], rows_);
        if (!rows || !can_be_rows(*rows)) rows = joined(rows_, batch_[i]);
        if (!rows || !can_be_rows(*rows)) continue;
        rows_ = *rows;
        batch_.erase(batch_.begin() + static_cast<std::ptrdiff_t>(i));
        merged = true;
      }
    }
  }

  void take_longest_rows() {
    for (Axis& axis : batch_) {
      if (axis.b() == 0 && axis.extent > rows_.extent && can_be_rows(axis)) std::swap(axis, rows_);
    }
  }

  void merge_batch() {
    while (merge_two()) {
    }
  }

  bool merge_two() {
    for (std::size_t i = 0; i < batch_.size(); ++i) {
      for (std::size_t j = 0; j < batch_.size(); ++j) {
        const auto one = i == j ? std::nullopt : joined(batch_[i], batch_[j]);
        if (!one) continue;
        batch_[i] = *one;
        batch_.erase(batch_.begin() + static_cast<std::ptrdiff_t>(j));
        return true;
      }
    }
    return false;
  }

  std::int64_t n_, k_, a_column_;
  Axis rows_;
  std::vector<Axis> batch_;
};

std::string matrix_text(const DeviceGemmShape& shape, const DeviceGemmShape::Matrix& matrix) {
  return fmt::format("{}{},{}@{}", shape.batch == 1 ? "" : fmt::format("{},", matrix.batch), matrix.row,
                     matrix.column, matrix.alignment);
}

std::string sizes(const DeviceGemmShape& shape) {
  return fmt::format("gemm {}{}x{}x{}", shape.batch == 1 ? "" : fmt::format("{}x", shape.batch), shape.m,
                     shape.n, shape.k);
}

std::string addends(const DeviceGemmShape& shape) {
  return epilogue_text(shape.epilogue, shape.bias, shape.has_pre(), shape.accumulate);
}

}  // namespace

std::string short_name(const DeviceGemmShape& shape) {
  return sizes(shape) + addends(shape);
}

std::string full_name(const DeviceGemmShape& shape) {
  return fmt::format("{} {}{}{}{} a={} b={} c={}{}", sizes(shape), ir::dtype_name(shape.dtype),
                     shape.result == shape.dtype ? "" : fmt::format(">{}", ir::dtype_name(shape.result)),
                     shape.tf32 ? " tf32" : "", addends(shape), matrix_text(shape, shape.a),
                     matrix_text(shape, shape.b), matrix_text(shape, shape.c),
                     shape.has_pre() ? fmt::format(" pre={}", matrix_text(shape, shape.pre)) : "");
}

std::vector<DeviceGemmCall> device_gemm_calls(const Program& program, const GemmLaunch& launch, bool tf32) {
  const auto type = [&](const View& view) {
    return program.buffers[static_cast<std::size_t>(view.buffer)].type.dtype;
  };
  const auto bytes = [&](const View& view) { return static_cast<std::int64_t>(ir::dtype_bytes(type(view))); };
  const Axes axes(launch);
  const Axis own = axes.batch().empty() ? Axis{} : axes.batch().back();
  const std::size_t last = launch.c.shape.size() - 1;
  // Returns the largest power of two, at most a buffer's alignment, that divides the byte offset of every
  // product's matrix.
  const auto alignment = [&](const View& view, std::size_t operand) {
    std::int64_t bits = kBufferAlignment | (view.offset * bytes(view));
    for (const Axis& axis : axes.batch()) bits |= axis.strides[operand] * bytes(view);
    return bits & -bits;
  };
  DeviceGemmCall call;
  call.shape = {.batch = own.extent,
                .m = axes.rows().extent,
                .n = launch.c.shape.back(),
                .k = launch.a.shape.back(),
                .a = {own.a(), axes.rows().a(), launch.a.strides[last], alignment(launch.a, 0)},
                .b = {own.b(), launch.b.strides[last - 1], launch.b.strides[last], alignment(launch.b, 1)},
                .c = {own.c(), axes.rows().c(), launch.c.strides[last], alignment(launch.c, 2)},
                .dtype = type(launch.a),
                .result = type(launch.c),
                .tf32 = tf32 && !launch.exact && type(launch.a) == ir::DType::f32,
                .bias = launch.bias.buffer >= 0,
                .accumulate = launch.accumulate,
                .epilogue = launch.epilogue};
  if (launch.pre.buffer >= 0) {
    call.shape.pre = {own.c(), axes.rows().c(), launch.pre.strides[last], alignment(launch.pre, 2)};
    call.pre = launch.pre.offset * bytes(launch.pre);
  }
  if (call.shape.bias) call.bias = launch.bias.offset * bytes(launch.bias);
  std::int64_t count = 1;
  for (const Axis& axis : axes.batch()) count *= axis.extent;
  std::vector<DeviceGemmCall> calls;
  for (std::int64_t outer = 0; outer < count / own.extent; ++outer) {
    std::array<std::int64_t, 3> offset = {launch.a.offset, launch.b.offset, launch.c.offset};
    std::int64_t rest = outer;
    for (std::size_t d = 0; d + 1 < axes.batch().size(); ++d) {
      const Axis& axis = axes.batch()[d];
      for (std::size_t i = 0; i < 3; ++i) offset[i] += rest % axis.extent * axis.strides[i];
      rest /= axis.extent;
    }
    call.a = offset[0] * bytes(launch.a);
    call.b = offset[1] * bytes(launch.b);
    call.c = offset[2] * bytes(launch.c);
    calls.push_back(call);
  }
  return calls;
}

}  // namespace rewire::codegen
