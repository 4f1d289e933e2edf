// The objects over the driver, on the fake driver: order, capture, errors and what is given back. And that
// the fake finds what a device leaves undefined.
#include "runtime/device/cuda/device.h"

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "codegen/cuda/emit.h"
#include "codegen/cuda/nvrtc.h"
#include "ir/error.h"
#include "tests/runtime_cuda/fake_run.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime::cuda {
namespace {

const char* const kTwice = R"(
extern "C" __global__ void __launch_bounds__(32) twice(const float* x, float* y) {
  y[threadIdx.x] = 2 * x[threadIdx.x];
}
extern "C" __global__ void sum(const float* x, float* y) {
  REWIRE_SHARED(shared);
  float* const all = reinterpret_cast<float*>(shared);
  all[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  float total = 0;
  for (int i = 0; i < 32; ++i) total += all[i];
  y[threadIdx.x] = total;
}
)";
constexpr std::int64_t kBytes = 32 * sizeof(float);

Module load() {
  std::string text(codegen::cuda::prelude());
  return {codegen::cuda::compile_cubin(text + kTwice, 90).cubin, "of the test"};
}

/// 0, 1, 2 … in pinned memory.
PinnedMemory counted(float first = 0) {
  PinnedMemory memory(kBytes, "the test");
  auto* const values = reinterpret_cast<float*>(memory.bytes().data());
  for (int i = 0; i < 32; ++i) values[i] = first + static_cast<float>(i);
  return memory;
}

float at(const PinnedMemory& memory, std::size_t index) {
  float value = 0;
  std::memcpy(&value, memory.bytes().data() + index * sizeof(float), sizeof(float));
  return value;
}

TEST_CASE("a device tells what kernels are made for") {
  const NothingLost lost_nothing;
  REQUIRE_FALSE(driver_missing());
  CHECK(device_count() == 1);
  const DeviceFacts facts = device_facts(0);
  CHECK(facts.name == "Fake CUDA device");
  CHECK(facts.uuid == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
  CHECK(facts.arch == 90);
  CHECK(facts.multiprocessors == 132);
  CHECK(facts.shared_bytes_per_block == 232448);
  CHECK(facts.memory_bytes == std::int64_t{4} << 30);
  CHECK(test::message_of<UserError>([] { device_facts(3); }) ==
        "there is no CUDA device 3: the driver has 1");
}

TEST_CASE("work on a stream runs in order, and not before somebody waits") {
  for (const unsigned long order : {0UL, 1UL, 2UL, 3UL}) {
    const NothingLost lost_nothing;
    fake().order(order);
    const Context context;
    const Module module = load();
    const Stream stream;
    const DeviceMemory x(kBytes, "x"), y(kBytes, "y");
    const PinnedMemory in = counted(), out = counted();
    stream.copy_in(x.address(), in.bytes().data(), kBytes, "of x");
    launch(module.function("twice", 0), {1, 32, 0}, std::array{x.address(), y.address()}, stream,
           "of 'twice'");
    stream.copy_out(out.bytes().data(), y.address(), kBytes, "of y");
    if (order == 0) CHECK(at(out, 7) == 7);
    stream.synchronise("after the test");
    CHECK(at(out, 7) == 14);
    CHECK(std::string(fake().faults()).empty());
  }
}

TEST_CASE("a stream waits for an event of another") {
  for (const unsigned long order : {0UL, 1UL, 2UL, 3UL, 4UL}) {
    const NothingLost lost_nothing;
    fake().order(order);
    const Context context;
    const Stream first, second;
    const Event copied, untouched;
    const DeviceMemory x(kBytes, "x");
    const PinnedMemory in = counted(), out = counted(100);
    CHECK(copied.happened());  // never recorded
    second.wait_for(untouched);
    first.copy_in(x.address(), in.bytes().data(), kBytes, "of x");
    copied.record(first);
    second.wait_for(copied);
    second.copy_out(out.bytes().data(), x.address(), kBytes, "of x");
    if (order == 0) CHECK_FALSE(copied.happened());
    second.synchronise("of the test");
    CHECK(copied.happened());
    copied.synchronise("of the test");
    CHECK(at(out, 31) == 31);
  }
}

TEST_CASE("a graph runs what was captured, in that order, at each launch and not before") {
  const NothingLost lost_nothing;
  const Context context;
  const Module module = load();
  const Stream stream;
  const DeviceMemory x(kBytes, "x"), y(kBytes, "y"), z(kBytes, "z");
  const PinnedMemory in = counted(), out = counted();
  stream.copy_in(x.address(), in.bytes().data(), kBytes, "of x");
  void* const twice = module.function("twice", 0);
  const Graph graph(stream, "of the test", [&] {
    launch(twice, {1, 32, 0}, std::array{x.address(), y.address()}, stream, "");
    launch(module.function("sum", kBytes), {1, 32, kBytes}, std::array{y.address(), z.address()}, stream, "");
    stream.copy(x.address(), z.address(), kBytes, "of z");
  });
  stream.synchronise("");
  CHECK(std::string(fake().trace()) == "stream 1: copy to the device 128\n");
  for (int run = 0; run < 2; ++run) graph.launch(stream, "of the test");
  stream.copy_out(out.bytes().data(), x.address(), kBytes, "of x");
  stream.synchronise("");
  CHECK(at(out, 3) == 2 * 32 * (2 * 31 * 16));
  const std::string once = "stream 1: twice\nstream 1: sum\nstream 1: copy 128\n";
  CHECK(std::string(fake().trace()) ==
        "stream 1: copy to the device 128\n" + once + once + "stream 1: copy to the host 128\n");
  CHECK(std::string(fake().faults()).empty());
}

TEST_CASE("waiting and allocating while a stream is captured are errors, and end the capture") {
  const NothingLost lost_nothing;
  const Context context;
  const Stream stream;
  CHECK(test::message_of<RuntimeFailure>(
            [&] { const Graph graph(stream, "of 'step'", [&] { stream.synchronise("of 'step'"); }); }) ==
        "cuStreamSynchronize of 'step': CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (operation not permitted when "
        "stream is "
        "capturing)");
  CHECK(test::message_of<RuntimeFailure>([&] {
          const Graph graph(stream, "of 'step'", [] { const DeviceMemory late(12, "the arena"); });
        }) ==
        "cuMemAlloc of 12 bytes for the arena: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (operation not "
        "permitted when "
        "stream is capturing)");
  const Graph graph(stream, "", [] {});
  graph.launch(stream, "");
  stream.synchronise("");
}

TEST_CASE("an error has the call's name, the driver's words, what it was for and a way out") {
  const NothingLost lost_nothing;
  const Context context;
  CHECK(
      test::message_of<OutOfMemory>(
          [] { const DeviceMemory much(std::int64_t{6} << 30, "the arena of program 'step'"); }) ==
      "out of device memory: 6.44 GB are needed for the arena of program 'step', 4.29 GB of 4.29 GB are "
      "free, and this "
      "process holds 0 bytes; set train.batch smaller (with train.accumulate=2 for the same step), or "
      "train.recompute=block, end other programs on the device, or take another (rewire doctor lists them)");
  const DeviceMemory some(std::int64_t{1} << 30, "the state");
  CHECK_THAT(
      test::message_of<OutOfMemory>(
          [] { const DeviceMemory much(std::int64_t{5} << 30, "the arena of program 'eval'"); }),
      REWIRE_CATCH_CONTAINS("3.22 GB of 4.29 GB are free, and this process holds 1.07 GB; set eval.batch"));
  CHECK_THAT(
      test::message_of<OutOfMemory>(
          [] { const DeviceMemory much(std::int64_t{5} << 30, "weights and other state"); }),
      REWIRE_CATCH_CONTAINS("; use a smaller model, or train.zero=1 with several processes, end other"));
  fake().fail("cuStreamCreate", 2, 12345);
  const Stream stream;
  CHECK(test::message_of<RuntimeFailure>([] { const Stream other; }) == "cuStreamCreate: error 12345");
  const Module module = load();
  CHECK(test::message_of<RuntimeFailure>([&] { module.function("thrice", 0); }) ==
        "cuModuleGetFunction 'thrice': CUDA_ERROR_NOT_FOUND (named symbol not found)");
  CHECK(test::message_of<RuntimeFailure>([] { const Module none("not a cubin, really not", "of 'x'"); }) ==
        "cuModuleLoadData of 'x': CUDA_ERROR_INVALID_IMAGE (device kernel image is invalid)");
}

TEST_CASE("the fake finds memory and streams that are gone") {
  const NothingLost lost_nothing;
  const Context context;
  const Stream stream;
  const PinnedMemory in = counted();
  Address gone = 0;
  {
    const DeviceMemory x(kBytes, "x");
    gone = x.address();
  }
  stream.copy_in(gone, in.bytes().data(), kBytes, "of x");
  CHECK_THROWS_AS(stream.synchronise(""), RuntimeFailure);
  CHECK(std::string(fake().faults()) ==
        "copy to the device: 128 bytes do not lie within one living allocation of device memory\n");
  // As after a crash of a kernel, nothing works any more.
  CHECK_THROWS_AS(DeviceMemory(12, "y"), RuntimeFailure);
  fake().reset();
  CHECK(driver().free.status(gone) == 1);
  CHECK(driver().destroy_stream.status(&gone) == 400);
  CHECK(std::string(fake().faults()) ==
        "cuMemFree_v2: no allocation begins at this address\ncuStreamDestroy_v2: no such stream, or it was "
        "destroyed\n");
}

TEST_CASE("the fake names what outlives the context") {
  fake().reset();
  Address address = 0;
  {
    const Context context;
    driver().allocate("", &address, 12);
  }
  CHECK(std::string(fake().faults()) ==
        "cuDevicePrimaryCtxRelease_v2: still there: 12 bytes of device memory\n\n");
  const Context context;
  driver().free("", address);
}

TEST_CASE("memory is NaN until it is written") {
  const NothingLost lost_nothing;
  const Context context;
  const Stream stream;
  const DeviceMemory x(kBytes, "x");
  const PinnedMemory out(kBytes, "out");
  CHECK(std::isnan(at(out, 0)));
  stream.copy_out(out.bytes().data(), x.address(), kBytes, "");
  stream.synchronise("");
  CHECK(std::isnan(at(out, 5)));
}

}  // namespace

}  // namespace rewire::runtime::cuda
