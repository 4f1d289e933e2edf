// HostTensor storage, and the conversions between stored dtypes and doubles. Floats narrow by rounding the
// double once, to nearest even; an integer that the target cannot hold is refused, never wrapped.
#include "runtime/io/host_tensor.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include "ir/error.h"

namespace rewire::runtime {
namespace {

using ir::DType;

static_assert(std::endian::native == std::endian::little, "tensors are stored little-endian");

constexpr std::size_t kCacheLine = 64;
/// From this size on, memory comes from the kernel. The kernel zeroes a page when a thread first
/// touches it, and never if none does.
constexpr std::size_t kLargeTensor = std::size_t{1} << 20;
/// From this size on, pages have 2 MiB if the kernel has them; each is zeroed as a whole. Reading along
/// columns touches more pages of 4 KiB than a core keeps addresses of.
constexpr std::size_t kHugeTensor = std::size_t{8} << 20;
/// Every integer up to here is a double.
constexpr std::int64_t kMaxExactInteger = std::int64_t{1} << 53;

/// An IEEE-like 16-bit float: sign, exponent, mantissa.
struct HalfFormat {
  int exponent_bits;
  int mantissa_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint16_t infinity() const {
    return static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits);
  }
};
constexpr HalfFormat kBf16{8, 7};
constexpr HalfFormat kF16{5, 10};

/// Rounds |value| to an integer multiple of the format's spacing at its magnitude, in one exact step: the
/// division by a power of two is exact, nearbyint rounds to nearest even.
std::uint16_t encode(double value, HalfFormat format) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) {
    return static_cast<std::uint16_t>(sign | format.infinity() | (1 << (format.mantissa_bits - 1)));
  }
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  if (std::isinf(magnitude)) return static_cast<std::uint16_t>(sign | format.infinity());
  const int exponent = std::max(std::ilogb(magnitude), 1 - format.bias());  // below: subnormal, fixed spacing
  if (exponent > format.bias()) return static_cast<std::uint16_t>(sign | format.infinity());
  const auto multiple =
      static_cast<std::uint32_t>(std::nearbyint(std::scalbn(magnitude, format.mantissa_bits - exponent)));
  // A normal number's multiple has the hidden bit, worth one exponent step: adding carries into the exponent
  // when rounding reached the next power of two, and into infinity at the top.
  const auto exponent_field = static_cast<std::uint32_t>(exponent + format.bias() - 1);
  const std::uint32_t bits = (exponent_field << format.mantissa_bits) + multiple;
  return static_cast<std::uint16_t>(sign | std::min<std::uint32_t>(bits, format.infinity()));
}

double decode(std::uint16_t bits, HalfFormat format) {
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const int exponent_field = (bits & 0x7fff) >> format.mantissa_bits;
  double magnitude = 0;
  if (exponent_field == (1 << format.exponent_bits) - 1) {
    magnitude =
        mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else {
    const int hidden = exponent_field == 0 ? 0 : 1 << format.mantissa_bits;
    magnitude =
        std::scalbn(hidden + mantissa, std::max(exponent_field, 1) - format.bias() - format.mantissa_bits);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

/// Truncates toward zero, as the IR's cast.
template <class Integer>
Integer to_integer(double value, DType dtype) {
  const double whole = std::trunc(value);
  // -(2^n) and 2^n are exact doubles, while the largest Integer may not be.
  const double limit = std::ldexp(1.0, std::numeric_limits<Integer>::digits);
  const double lowest = std::is_signed_v<Integer> ? -limit : 0.0;
  if (!(whole >= lowest && whole < limit)) {
    user_error("the value {} does not fit {}", value, ir::dtype_name(dtype));
  }
  return static_cast<Integer>(whole);
}

void store(HostTensor& tensor, std::size_t i, double value) {
  const DType dtype = tensor.type().dtype;
  switch (dtype) {
    case DType::f64:
      tensor.as<double>()[i] = value;
      return;
    case DType::f32:
      tensor.as<float>()[i] = static_cast<float>(value);
      return;
    case DType::bf16:
      tensor.as<std::uint16_t>()[i] = encode(value, kBf16);
      return;
    case DType::f16:
      tensor.as<std::uint16_t>()[i] = encode(value, kF16);
      return;
    case DType::i64:
      tensor.as<std::int64_t>()[i] = to_integer<std::int64_t>(value, dtype);
      return;
    case DType::i32:
      tensor.as<std::int32_t>()[i] = to_integer<std::int32_t>(value, dtype);
      return;
    case DType::u8:
      tensor.as<std::uint8_t>()[i] = to_integer<std::uint8_t>(value, dtype);
      return;
    case DType::i1:
      tensor.as<std::uint8_t>()[i] = value != 0 ? 1 : 0;
      return;
  }
  internal_error("store: unknown dtype {}", static_cast<int>(dtype));
}

double load(const HostTensor& tensor, std::size_t i) {
  switch (tensor.type().dtype) {
    case DType::f64:
      return tensor.as<double>()[i];
    case DType::f32:
      return tensor.as<float>()[i];
    case DType::bf16:
      return decode(tensor.as<std::uint16_t>()[i], kBf16);
    case DType::f16:
      return decode(tensor.as<std::uint16_t>()[i], kF16);
    case DType::i64: {
      const std::int64_t value = tensor.as<std::int64_t>()[i];
      if (value > kMaxExactInteger || value < -kMaxExactInteger) {
        user_error("the integer {} is beyond 2^53, so no double holds it exactly", value);
      }
      return static_cast<double>(value);
    }
    case DType::i32:
      return tensor.as<std::int32_t>()[i];
    case DType::u8:
      return tensor.as<std::uint8_t>()[i];
    case DType::i1:
      return tensor.as<std::uint8_t>()[i] != 0 ? 1 : 0;
  }
  internal_error("load: unknown dtype {}", static_cast<int>(tensor.type().dtype));
}

}  // namespace

HostTensor::HostTensor(ir::TensorType type)
    : type_(std::move(type)), size_(static_cast<std::size_t>(type_.bytes())) {
  if (size_ >= kLargeTensor) {
    void* pages = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    if (size_ >= kHugeTensor) ::madvise(pages, size_, MADV_HUGEPAGE);
    data_ = std::unique_ptr<std::byte[], Free>(static_cast<std::byte*>(pages), Free(size_));
    return;
  }
  const std::size_t whole_lines = (size_ + kCacheLine - 1) / kCacheLine * kCacheLine;
  auto* pointer = static_cast<std::byte*>(std::aligned_alloc(kCacheLine, whole_lines));
  if (pointer == nullptr) throw std::bad_alloc();
  std::memset(pointer, 0, whole_lines);
  data_.reset(pointer);
}

void HostTensor::Free::operator()(std::byte* pointer) const {
  if (mapped > 0) {
    ::munmap(pointer, mapped);
  } else {
    std::free(pointer);
  }
}

HostTensor HostTensor::clone() const {
  if (data_ == nullptr) return {};
  HostTensor copy(type_);
  std::memcpy(copy.data_.get(), data_.get(), size_);
  return copy;
}

HostTensor to_host(const ir::Tensor& tensor) {
  HostTensor host(tensor.type);
  for (std::size_t i = 0; i < tensor.data.size(); ++i) store(host, i, tensor.data[i]);
  return host;
}

ir::Tensor to_double(const HostTensor& tensor) {
  ir::Tensor result(tensor.type());
  for (std::size_t i = 0; i < result.data.size(); ++i) result.data[i] = load(tensor, i);
  return result;
}

HostTensor convert(const HostTensor& tensor, ir::DType dtype) {
  if (tensor.type().dtype == dtype) return tensor.clone();
  HostTensor result({dtype, tensor.type().shape});
  const auto count = static_cast<std::size_t>(tensor.type().elements());
  for (std::size_t i = 0; i < count; ++i) store(result, i, load(tensor, i));
  return result;
}

}  // namespace rewire::runtime
