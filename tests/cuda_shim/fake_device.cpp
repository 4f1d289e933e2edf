// Guarded heap memory, and products of matrices as dense arrays of doubles.
#include "tests/cuda_shim/fake_device.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "ir/error.h"
#include "ir/tensor.h"
#include "runtime/io/host_tensor.h"

namespace rewire::cuda_shim {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kGuard = 256;  // before and behind
constexpr std::byte kPoison{0xFF};   // NaN in every float type, for guards too: reading one shows

struct Free {
  void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t{kAlignment}); }
};

using Strides = std::array<std::int64_t, 3>;

/// Elements of a [rows, columns] matrix with strides, row-major.
std::vector<double> dense(const void* data, ir::DType dtype, std::int64_t rows, std::int64_t columns,
                          std::int64_t row_stride, std::int64_t column_stride) {
  const std::size_t size = ir::dtype_bytes(dtype);
  runtime::HostTensor gathered({dtype, {rows, columns}});
  std::byte* to = gathered.bytes().data();
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j, to += size) {
      const std::int64_t element = i * row_stride + j * column_stride;
      std::memcpy(to, static_cast<const std::byte*>(data) + element * static_cast<std::int64_t>(size), size);
    }
  }
  return runtime::to_double(gathered).data;
}

void* offset(void* data, ir::DType dtype, std::int64_t elements) {
  return static_cast<std::byte*>(data) + elements * static_cast<std::int64_t>(ir::dtype_bytes(dtype));
}

void scatter(void* data, ir::DType dtype, std::int64_t rows, std::int64_t columns, const Strides& strides,
             std::vector<double> values) {
  const std::size_t size = ir::dtype_bytes(dtype);
  const runtime::HostTensor stored =
      runtime::to_host(ir::Tensor({dtype, {rows, columns}}, std::move(values)));
  const std::byte* from = stored.bytes().data();
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j, from += size)
      std::memcpy(offset(data, dtype, i * strides[1] + j * strides[2]), from, size);
  }
}

}  // namespace

struct FakeDevice::Allocation {
  std::string name;
  std::size_t bytes = 0;
  std::unique_ptr<std::byte, Free> memory;  // from the guard on

  std::byte* begin() const { return memory.get() + kGuard; }
  bool guards_hold() const {
    const auto intact = [](std::byte byte) { return byte == kPoison; };
    return std::all_of(memory.get(), begin(), intact) &&
           std::all_of(begin() + bytes, begin() + bytes + kGuard, intact);
  }
};

FakeDevice::FakeDevice(const LaunchOptions& options) : runner_(options) {}
FakeDevice::~FakeDevice() = default;

void* FakeDevice::allocate(std::string name, std::int64_t bytes) {
  Allocation allocation;
  allocation.name = std::move(name);
  allocation.bytes = static_cast<std::size_t>(bytes);
  const std::size_t whole = allocation.bytes + 2 * kGuard;
  allocation.memory.reset(static_cast<std::byte*>(::operator new(whole, std::align_val_t{kAlignment})));
  std::fill_n(allocation.memory.get(), whole, kPoison);
  std::byte* const address = allocation.begin();
  allocations_.emplace(address, std::move(allocation));
  return address;
}

void FakeDevice::free(void* memory) {
  if (allocations_.erase(static_cast<std::byte*>(memory)) == 0)
    throw RuntimeFailure("free: no allocation begins at this address");
}

const FakeDevice::Allocation& FakeDevice::owner(const void* memory, std::size_t bytes) const {
  const auto* address = static_cast<const std::byte*>(memory);
  auto after = allocations_.upper_bound(address);
  if (after != allocations_.begin()) {
    const Allocation& allocation = std::prev(after)->second;
    if (address + bytes <= allocation.begin() + allocation.bytes) return allocation;
  }
  throw RuntimeFailure(fmt::format("copy: {} bytes do not lie within an allocation", bytes));
}

void FakeDevice::copy_in(void* to, std::span<const std::byte> from) {
  owner(to, from.size());
  std::memcpy(to, from.data(), from.size());
}

void FakeDevice::copy_out(std::span<std::byte> to, const void* from) const {
  owner(from, to.size());
  std::memcpy(to.data(), from, to.size());
}

void FakeDevice::add_kernel(const KernelFunction& kernel) {
  kernels_.insert_or_assign(kernel.name, kernel);
}

void FakeDevice::launch(std::string_view kernel, const Grid& grid, std::span<void* const> arguments) {
  const auto found = kernels_.find(kernel);
  if (found == kernels_.end()) throw RuntimeFailure(fmt::format("launch: there is no kernel '{}'", kernel));
  runner_.launch(found->second, grid, arguments);
  check_guards(kernel);
}

void FakeDevice::multiply(const MatrixProduct& p) {
  const auto elements = static_cast<std::size_t>(p.m * p.n);
  for (std::int64_t batch = 0; batch < p.batch; ++batch) {
    const auto at = [&](const MatrixProduct::Matrix& matrix, ir::DType dtype) {
      return offset(matrix.data, dtype, batch * matrix.strides[0]);
    };
    const std::vector<double> a = dense(at(p.a, p.dtype), p.dtype, p.m, p.k, p.a.strides[1], p.a.strides[2]);
    const std::vector<double> b = dense(at(p.b, p.dtype), p.dtype, p.k, p.n, p.b.strides[1], p.b.strides[2]);
    std::vector<double> c(elements, 0);
    if (p.accumulate) c = dense(at(p.c, p.c_dtype), p.c_dtype, p.m, p.n, p.c.strides[1], p.c.strides[2]);
    if (p.bias != nullptr) {
      const std::vector<double> bias = dense(p.bias, p.bias_dtype, 1, p.n, 0, p.bias_stride);
      for (std::size_t i = 0; i < elements; ++i) c[i] += bias[i % static_cast<std::size_t>(p.n)];
    }
    for (std::int64_t i = 0; i < p.m; ++i) {
      double* const row = c.data() + i * p.n;
      for (std::int64_t k = 0; k < p.k; ++k) {
        const double x = a[static_cast<std::size_t>(i * p.k + k)];
        const double* const other = b.data() + k * p.n;
        for (std::int64_t j = 0; j < p.n; ++j) row[j] += x * other[j];
      }
    }
    scatter(at(p.c, p.c_dtype), p.c_dtype, p.m, p.n, p.c.strides, std::move(c));
  }
  check_guards("a matrix product");
}

void FakeDevice::check_guards(std::string_view after) const {
  for (const auto& [address, allocation] : allocations_) {
    if (!allocation.guards_hold())
      throw RuntimeFailure(
          fmt::format("{}: wrote outside of '{}', {} bytes", after, allocation.name, allocation.bytes));
  }
}

}  // namespace rewire::cuda_shim
