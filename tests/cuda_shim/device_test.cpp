// Text to functions, and the fake device that launches them.
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "ir/error.h"
#include "ir/tensor.h"
#include "runtime/io/host_tensor.h"
#include "tests/cuda_shim/compile.h"
#include "tests/cuda_shim/fake_device.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::cuda_shim {
namespace {

const KernelText kScale{"scale", R"(
extern "C" __global__ void scale(const float* x, float* y, const int* count) {
  const int i = static_cast<int>(blockIdx.x) * 64 + static_cast<int>(threadIdx.x);
  if (i < *count) y[i] = twice(x[i]);
}
)"};
const KernelText kPastTheEnd{"past_the_end", R"(
extern "C" __global__ void past_the_end(float* y, const int* count) {
  if (threadIdx.x == 0) y[*count] = 1;
}
)"};
const KernelText kStuck{"stuck", R"(
extern "C" __global__ void stuck(float* y) {
  if (threadIdx.x > 1)
    __syncthreads();
}
)"};
const KernelText kMisaligned{"misaligned", R"(
struct alignas(16) Four { float lane[4]; };
extern "C" __global__ void misaligned(float* y) {
  Four four = {{1, 2, 3, 4}};
  *reinterpret_cast<Four*>(y + threadIdx.x % 4 / 3) = four;
}
)"};
const KernelText kOutOfBounds{"out_of_bounds", R"(
extern "C" __global__ void out_of_bounds(float* y) {
  float row[4] = {1, 2, 3, 4};
  y[0] = row[threadIdx.x / 8];
}
)"};
const std::string kPrelude = "static float twice(float x) { return 2 * x; }\n";

template <class T>
void* on_device(FakeDevice& device, const std::string& name, const std::vector<T>& values) {
  void* const memory = device.allocate(name, static_cast<std::int64_t>(values.size() * sizeof(T)));
  device.copy_in(memory, std::as_bytes(std::span(values)));
  return memory;
}

template <class T>
std::vector<T> from_device(const FakeDevice& device, const void* memory, std::size_t count) {
  std::vector<T> values(count);
  device.copy_out(std::as_writable_bytes(std::span(values)), memory);
  return values;
}

TEST_CASE("text is compiled once and found again") {
  const test::TemporaryFolder folder;
  const std::vector<KernelText> both = {kScale, kStuck};
  for (int run = 0; run < 2; ++run) {
    HostCompiler compiler(folder.path(), kPrelude);
    compiler.add(both);
    compiler.add(both);  // known
    CHECK(compiler.report().kernels == 2);
    CHECK(compiler.report().compiled_files == (run == 0 ? compiler.report().files : 0));
    CHECK(compiler.kernel("scale").run != nullptr);
    CHECK_THROWS_AS(compiler.kernel("unknown"), InternalError);
  }
  HostCompiler other(folder.path(), kPrelude + "// another\n");
  other.add(both);
  CHECK(other.report().compiled_files == other.report().files);
}

TEST_CASE("a text that does not compile is quoted with its own name and line") {
  const test::TemporaryFolder folder;
  HostCompiler compiler(folder.path(), "");
  const std::string message = test::message_of<RuntimeFailure>([&] { compiler.add({&kScale, 1}); });
  CHECK_THAT(message, REWIRE_CATCH_CONTAINS("scale.cu:4") && REWIRE_CATCH_CONTAINS("twice"));
}

TEST_CASE("a kernel runs on device memory, which is NaN until it is written") {
  const test::TemporaryFolder folder;
  HostCompiler compiler(folder.path(), kPrelude);
  compiler.add({&kScale, 1});
  FakeDevice device;
  device.add_kernel(compiler.kernel("scale"));
  std::vector<float> x(200);
  std::iota(x.begin(), x.end(), 0.0F);
  void* const y = device.allocate("y", 203 * 4);
  void* const arguments[] = {on_device(device, "x", x), y, on_device<int>(device, "count", {200})};
  device.launch("scale", {4, 64, 0}, arguments);
  const auto result = from_device<float>(device, y, 203);
  for (std::size_t i = 0; i < 200; ++i) REQUIRE(result[i] == 2 * x[i]);
  for (std::size_t i = 200; i < 203; ++i) REQUIRE(std::isnan(result[i]));
}

TEST_CASE("the device names what a program does wrong") {
  const test::TemporaryFolder folder;
  HostCompiler compiler(folder.path(), "");
  const std::vector<KernelText> kernels = {kPastTheEnd, kStuck};
  compiler.add(kernels);
  FakeDevice device;
  for (const char* name : {"past_the_end", "stuck"}) device.add_kernel(compiler.kernel(name));
  void* const x = device.allocate("x", 40);
  const auto message = [](auto call) { return test::message_of<RuntimeFailure>(call); };
  void* const arguments[] = {x, on_device<int>(device, "count", {10})};
  CHECK(message([&] { device.launch("none", {}, arguments); }) == "launch: there is no kernel 'none'");
  CHECK_THAT(message([&] { device.launch("stuck", {2, 32, 0}, {&x, 1}); }),
             REWIRE_CATCH_CONTAINS("0-1 finished; 2-31 wait at __syncthreads in stuck (stuck.cu:4)"));
  const std::vector<float> much(11);
  CHECK(message([&] { device.copy_in(x, std::as_bytes(std::span(much))); }) ==
        "copy: 44 bytes do not lie within an allocation");
  CHECK(message([&] { device.free(static_cast<float*>(x) + 1); }) ==
        "free: no allocation begins at this address");
  CHECK(message([&] { device.launch("past_the_end", {1, 32, 0}, arguments); }) ==
        "past_the_end: wrote outside of 'x', 40 bytes");
}

#ifndef REWIRE_SHIM_SANITIZED  // a sanitizer's library ends the process instead
TEST_CASE("an access that is not aligned and an index out of bounds are found where they happen") {
  const test::TemporaryFolder folder;
  HostCompiler compiler(folder.path(), "");
  const std::vector<KernelText> kernels = {kMisaligned, kOutOfBounds};
  compiler.add(kernels);
  FakeDevice device;
  void* const y = device.allocate("y", 40);
  const auto message = [&](const char* kernel) {
    device.add_kernel(compiler.kernel(kernel));
    return test::message_of<RuntimeFailure>([&] { device.launch(kernel, {1, 64, 0}, {&y, 1}); });
  };
  CHECK(message("misaligned") ==
        "kernel 'misaligned', block 0, thread 3: memory access in the kernel (misaligned.cu:5): the address "
        "is null or "
        "not aligned to the type");
  CHECK(message("out_of_bounds") ==
        "kernel 'out_of_bounds', block 0, thread 32: array access in the kernel (out_of_bounds.cu:4): the "
        "index is out "
        "of bounds");
}
#endif

TEST_CASE("a matrix product takes strides, a batch, a bias and what is there") {
  std::mt19937 random(11);
  const auto draw = [&](std::size_t count) {
    std::vector<float> values(count);
    for (float& x : values) x = std::normal_distribution<float>()(random);
    return values;
  };
  constexpr std::size_t kBatch = 2, kM = 5, kN = 7, kK = 3;
  // a is transposed in memory, b is shared by the batch, c has rows of 9.
  const std::vector<float> a = draw(kBatch * kM * kK), b = draw(kK * kN), bias = draw(kN),
                           c = draw(kBatch * kM * 9);
  FakeDevice device;
  MatrixProduct product;
  product.batch = kBatch, product.m = kM, product.n = kN, product.k = kK;
  product.a = {on_device(device, "a", a), {kM * kK, 1, kM}};
  product.b = {on_device(device, "b", b), {0, kN, 1}};
  product.c = {on_device(device, "c", c), {kM * 9, 9, 1}};
  product.bias = on_device(device, "bias", bias);
  product.accumulate = true;
  device.multiply(product);
  const auto result = from_device<float>(device, product.c.data, c.size());
  for (std::size_t batch = 0; batch < kBatch; ++batch) {
    for (std::size_t i = 0; i < kM; ++i) {
      for (std::size_t j = 0; j < 9; ++j) {
        double expected = c[batch * kM * 9 + i * 9 + j];
        if (j < kN) {
          expected += bias[j];
          for (std::size_t k = 0; k < kK; ++k)
            expected += static_cast<double>(a[batch * kM * kK + k * kM + i]) * b[k * kN + j];
        }
        REQUIRE(result[batch * kM * 9 + i * 9 + j] == static_cast<float>(expected));
      }
    }
  }
}

}  // namespace
}  // namespace rewire::cuda_shim
