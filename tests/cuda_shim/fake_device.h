// A device without hardware: memory, kernels by name on the host's fibers, and matrix products in double
// precision. What the driver and the library give an executor, in as few calls.
//
// Memory is NaN until it is written, and stands between guard bytes: a write outside of an allocation is
// named by check_guards(), which every launch ends with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ir/types.h"
#include "tests/cuda_shim/launch.h"

namespace rewire::cuda_shim {

/// c [batch, m, n] = a [batch, m, k] b [batch, k, n] (+ bias [n]) (+ c). Strides in elements: batch, row,
/// column; a stride of 0 repeats.
struct MatrixProduct {
  struct Matrix {
    void* data = nullptr;
    std::array<std::int64_t, 3> strides{};
  };
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
  ir::DType dtype = ir::DType::f32;  // of a and b
  ir::DType c_dtype = ir::DType::f32, bias_dtype = ir::DType::f32;
  Matrix a, b, c;
  const void* bias = nullptr;  // none
  std::int64_t bias_stride = 1;
  bool accumulate = false;
};

class FakeDevice {
 public:
  explicit FakeDevice(const LaunchOptions& options = {});
  ~FakeDevice();
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(const FakeDevice&) = delete;

  /// Aligned to 256 bytes, as the driver's. The name is for messages.
  void* allocate(std::string name, std::int64_t bytes);
  /// RuntimeFailure if it was not allocated here, or is freed twice.
  void free(void* memory);
  /// To and from the device: within one allocation, else RuntimeFailure.
  void copy_in(void* to, std::span<const std::byte> from);
  void copy_out(std::span<std::byte> to, const void* from) const;

  void add_kernel(const KernelFunction& kernel);
  /// `arguments` are device pointers. RuntimeFailure for an unknown kernel, for one that does what a device
  /// leaves undefined, and for a write outside of an allocation.
  void launch(std::string_view kernel, const Grid& grid, std::span<void* const> arguments);
  void multiply(const MatrixProduct& product);

  /// RuntimeFailure naming the allocation whose guard was written to, and `after` what.
  void check_guards(std::string_view after) const;

 private:
  struct Allocation;
  const Allocation& owner(const void* memory, std::size_t bytes) const;

  GridRunner runner_;
  std::map<std::string, KernelFunction, std::less<>> kernels_;
  std::map<const std::byte*, Allocation> allocations_;  // by the address given out
};

}  // namespace rewire::cuda_shim
