// Guarded memory in the arguments' storage dtypes, and the comparison.
#include "tests/support/tile_check.h"

#include <fmt/format.h>
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <new>

#include "codegen/tile/walk.h"
#include "ir/tensor.h"

namespace rewire::test {
namespace {

using codegen::tile::Access;
using codegen::tile::ArgumentUse;
using codegen::tile::Kernel;
using ir::DType;

constexpr std::size_t kGuard = 256;  // bytes before and after
constexpr unsigned char kGuardByte = 0xA5;
const double kPoison = std::numeric_limits<double>::quiet_NaN();

// F16C, which every processor the kernels are made for has; not every compiler that builds the tests has
// _Float16.
__attribute__((target("f16c"))) std::uint16_t to_half(double value) {
  return _cvtss_sh(static_cast<float>(value), _MM_FROUND_TO_NEAREST_INT);
}

__attribute__((target("f16c"))) double from_half(std::uint16_t bits) {
  return static_cast<double>(_cvtsh_ss(bits));
}

void write_element(unsigned char* at, DType dtype, double value) {
  const auto put = [&](auto x) { std::memcpy(at, &x, sizeof(x)); };
  switch (dtype) {
    case DType::f64:
      return put(value);
    case DType::f32:
      return put(static_cast<float>(value));
    case DType::bf16:
      return put(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16));
    case DType::f16:
      return put(to_half(value));
    case DType::i64:
      return put(static_cast<std::int64_t>(value));
    case DType::i32:
      return put(static_cast<std::int32_t>(value));
    case DType::u8:
    case DType::i1:
      return put(static_cast<std::uint8_t>(value));
  }
}

template <class T>
T get(const unsigned char* at) {
  T x;
  std::memcpy(&x, at, sizeof(x));
  return x;
}

double read_element(const unsigned char* at, DType dtype) {
  switch (dtype) {
    case DType::f64:
      return get<double>(at);
    case DType::f32:
      return get<float>(at);
    case DType::bf16:
      return std::bit_cast<float>(static_cast<std::uint32_t>(get<std::uint16_t>(at)) << 16);
    case DType::f16:
      return from_half(get<std::uint16_t>(at));
    case DType::i64:
      return static_cast<double>(get<std::int64_t>(at));
    case DType::i32:
      return get<std::int32_t>(at);
    case DType::u8:
    case DType::i1:
      break;
  }
  return get<std::uint8_t>(at);
}

/// 64-byte aligned memory between two guard bands.
class GuardedBuffer {
 public:
  GuardedBuffer(DType dtype, const TileMemory& values)
      : dtype_(dtype), bytes_(values.size() * ir::dtype_bytes(dtype)) {
    memory_.reset(static_cast<unsigned char*>(::operator new(bytes_ + 2 * kGuard, std::align_val_t{64})));
    std::memset(memory_.get(), kGuardByte, bytes_ + 2 * kGuard);
    for (std::size_t i = 0; i < values.size(); ++i) {
      write_element(data() + i * ir::dtype_bytes(dtype), dtype, values[i]);
    }
  }

  unsigned char* data() { return memory_.get() + kGuard; }
  double at(std::size_t i) { return read_element(data() + i * ir::dtype_bytes(dtype_), dtype_); }
  bool guards_hold() const {
    const auto intact = [](unsigned char byte) { return byte == kGuardByte; };
    return std::all_of(memory_.get(), memory_.get() + kGuard, intact) &&
           std::all_of(memory_.get() + kGuard + bytes_, memory_.get() + 2 * kGuard + bytes_, intact);
  }

 private:
  struct Free {
    void operator()(unsigned char* memory) const { ::operator delete(memory, std::align_val_t{64}); }
  };
  DType dtype_;
  std::size_t bytes_;
  std::unique_ptr<unsigned char, Free> memory_;
};

double random_element(std::mt19937_64& random, DType dtype, const TileInput& range) {
  const double x = std::uniform_real_distribution<double>(range.low, range.high)(random);
  if (dtype == DType::i1) return x > 0 ? 1 : 0;
  if (dtype == DType::u8) return std::floor(std::abs(x));
  if (ir::is_integer(dtype)) return std::floor(x);
  return ir::round_to(dtype, x);
}

/// Poison where nothing is read; integers have no NaN, their poison is a number that no test computes.
double poison(DType dtype) {
  return ir::is_float(dtype) ? kPoison : 113;
}

void run_jit(const Kernel& kernel, const std::string& cpu, const std::vector<void*>& arguments) {
  codegen::CpuJit jit({"", 1, cpu});
  const codegen::CompiledKernel compiled = jit.compile({&kernel, 1})[0];
  GuardedBuffer scratch(DType::u8, TileMemory(static_cast<std::size_t>(compiled.scratch_bytes), 255));
  const std::int64_t instances = kernel.instances();
  std::int64_t begin = 0;
  for (std::int64_t piece = 1; begin < instances; piece = piece % 3 + 1) {
    const std::int64_t end = std::min(begin + piece, instances);
    compiled.function(arguments.data(), begin, end, scratch.data());
    begin = end;
  }
  if (!scratch.guards_hold()) throw std::runtime_error("the kernel wrote outside of its scratch memory");
}

std::string compare(const std::string& name, GuardedBuffer& buffer, DType dtype, const TileMemory& expected,
                    const TileCheck& check) {
  if (!buffer.guards_hold()) return fmt::format("{}: a guard was overwritten", name);
  double largest = check.floor;
  for (double x : expected) {
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  }
  const double storage = dtype == DType::bf16  ? 0x1p-7
                         : dtype == DType::f16 ? 0x1p-10
                                               : 0;  // near a tie, one unit either way
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double x = buffer.at(i);
    const double y = expected[i];
    if (std::isnan(x) && std::isnan(y)) continue;
    if (x == y || std::abs(x - y) <= check.tolerance * largest + storage * std::abs(y)) continue;
    return fmt::format("{}[{}]: {} instead of {} (largest {})", name, i, x, y, largest);
  }
  return "";
}

}  // namespace

std::vector<std::int64_t> argument_elements(const Kernel& kernel) {
  std::vector<std::int64_t> elements(kernel.arguments.size(), 1);
  const auto cover = [&](const Access& access, std::int64_t more) {
    std::int64_t last = access.offset + access.part_stride * (kernel.partitions - 1) + more;
    for (std::size_t axis = 0; axis < access.strides.size(); ++axis) {
      last += std::max<std::int64_t>(access.strides[axis], 0) * (kernel.axes[axis].extent - 1);
    }
    std::int64_t& known = elements[static_cast<std::size_t>(access.argument)];
    known = std::max(known, last + 1);
  };
  visit_nodes(kernel, [&](const codegen::tile::Node& node) {
    if (const auto* load = std::get_if<codegen::tile::Load>(&node)) {
      cover(load->access, load->index ? (load->index_limit - 1) * load->index_stride : 0);
    }
    if (const auto* store = std::get_if<codegen::tile::Store>(&node)) cover(store->access, 0);
  });
  return elements;
}

std::string check_kernel(const Kernel& kernel, const TileCheck& check, const TileRunner& run) {
  std::mt19937_64 random(check.seed);
  std::vector<TileMemory> expected;
  std::vector<GuardedBuffer> buffers;
  const std::vector<std::int64_t> elements = argument_elements(kernel);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const codegen::tile::Argument& argument = kernel.arguments[i];
    const TileInput range = i < check.inputs.size() ? check.inputs[i] : TileInput{};
    TileMemory values(static_cast<std::size_t>(elements[i]));
    for (double& x : values) {
      x = argument.use == ArgumentUse::write ? poison(argument.dtype)
                                             : random_element(random, argument.dtype, range);
    }
    buffers.emplace_back(argument.dtype, values);
    expected.push_back(std::move(values));
  }
  interpret(kernel, expected);
  std::vector<void*> pointers;
  for (GuardedBuffer& buffer : buffers) pointers.push_back(buffer.data());
  if (run) {
    run(kernel, pointers);
  } else {
    run_jit(kernel, check.cpu, pointers);
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const codegen::tile::Argument& argument = kernel.arguments[i];
    const std::string problem = compare(argument.name, buffers[i], argument.dtype, expected[i], check);
    if (!problem.empty()) return problem;
  }
  return "";
}

}  // namespace rewire::test
