// The installed cuDNN judges what we ask of it, without a GPU: told the properties of a device, it takes our
// descriptors, recognises attention and convolutions in them, names its engines and makes a plan of one.
#include <dlfcn.h>

#include <filesystem>

#include "codegen/cuda/nvrtc.h"
#include "codegen/library/cudnn_attention.h"
#include "codegen/library/cudnn_convolution.h"
#include "ir/opcodes.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

using codegen::CudnnAttention;
using codegen::DeviceAttentionShape;

constexpr std::int64_t kWorkspaceLimit = 512 << 20;

/// cuDNN looks for the driver's library by its name; the toolkit's stub, once open, answers to it.
bool has_driver_or_stub() {
  namespace fs = std::filesystem;
  if (::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) != nullptr) return true;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator("/usr/local", ignored)) {
    if (!entry.path().filename().string().starts_with("cuda")) continue;
    for (const char* folder : {"lib64/stubs", "lib/stubs"}) {
      const fs::path stub = entry.path() / folder / "libcuda.so";
      if (::dlopen(stub.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr &&
          ::dlopen("libcuda.so.1", RTLD_NOW) != nullptr)
        return true;
    }
  }
  return false;
}

/// Why nothing can be asked here; "": it can.
std::string missing() {
  if (const auto problem = codegen::cudnn_missing()) return *problem;
  if (const auto problem = codegen::cuda::nvrtc_missing()) return *problem;
  return has_driver_or_stub() ? "" : "neither a driver nor the toolkit's stub of it is there";
}

/// As cuDNN writes the properties of an A100, an H100 or a B200, as far as its engines look.
std::string properties(int arch) {
  const int multiprocessors = arch == 80 ? 108 : arch == 90 ? 132 : 148;
  const int shared = arch == 80 ? 166912 : 232448;
  return R"({"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "deviceVer": )" +
         std::to_string(arch * 10) + R"(, "driverVer": 13000, "cudaDeviceId": 0, "deviceName": "a GPU",)" +
         R"( "warpSize": 32, "multiProcessorCount": )" + std::to_string(multiprocessors) +
         R"(, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxCtasPerSM": 32,)" +
         R"( "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": )" + std::to_string(shared) +
         R"(, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "regsPerBlock": 65536,)" +
         R"( "totalGlobalMem": 85000000000, "l2CacheSize": 52428800, "smClockRateKHz": 1980000,)" +
         R"( "memClockRateKHz": 2619000, "memoryBusWidth": 5120, "pciDeviceId": 9008, "isTccDriver": 0,)" +
         R"( "supportCoopLaunch": 1, "oversizedSharedMemoryPerBlock": )" + std::to_string(shared) + "}";
}

/// Heads in a projection [batch, tokens, 3, heads, width], their output in [batch, tokens, heads, width].
DeviceAttentionShape heads(std::int64_t batch, std::int64_t count, std::int64_t tokens, std::int64_t width,
                           bool gradient) {
  DeviceAttentionShape shape;
  shape.gradient = gradient;
  shape.batch = batch, shape.heads = count, shape.queries = shape.keys = tokens, shape.width = width;
  shape.scale = 0.125;
  const DeviceAttentionShape::Tensor projected = {tokens * 3 * count * width, width, 3 * count * width};
  const DeviceAttentionShape::Tensor merged = {tokens * count * width, width, count * width};
  shape.q = shape.k = shape.v = shape.dq = shape.dk = shape.dv = projected;
  shape.output = shape.d_output = merged;
  return shape;
}

TEST_CASE("cuDNN has fused engines for the zoo's heads, forward and gradient") {
  if (const std::string why = missing(); !why.empty()) {
    WARN("not run: " << why);
    return;
  }
  for (const int arch : {80, 90}) {
    const codegen::Cudnn library(properties(arch));
    for (const std::int64_t tokens : {50, 65, 197, 257}) {
      for (const std::int64_t width : {32, 48, 64, 80}) {
        for (const bool gradient : {false, true}) {
          const DeviceAttentionShape shape = heads(2, 3, tokens, width, gradient);
          CAPTURE(codegen::full_name(shape), arch);
          const CudnnAttention attention(library, arch, shape, kWorkspaceLimit);
          REQUIRE_FALSE(attention.engines().empty());
          for (const std::string& engine : attention.engines()) CHECK(codegen::is_engine_text(engine));
        }
      }
    }
    CHECK_THROWS_AS(CudnnAttention(library, arch, heads(2, 3, 65, 36, false), kWorkspaceLimit),
                    codegen::UnsupportedGraph);
  }
  const codegen::Cudnn newer(properties(100));
  CHECK_NOTHROW(CudnnAttention(newer, 100, heads(2, 3, 65, 64, false), kWorkspaceLimit));
}

TEST_CASE("cuDNN compiles a plan of its first engine, up to loading it into a device") {
  if (const std::string why = missing(); !why.empty()) {
    WARN("not run: " << why);
    return;
  }
  const codegen::Cudnn library(properties(90));
  for (const bool gradient : {false, true}) {
    const DeviceAttentionShape shape = heads(2, 3, 65, 64, gradient);
    CudnnAttention attention(library, 90, shape, kWorkspaceLimit);
    CAPTURE(codegen::full_name(shape), attention.engines().front());
    CHECK_FALSE(attention.choose("cuDNN 1.2.3 engine 0, knobs"));
    try {
      const bool made = attention.choose(attention.engines().front());
      CHECK(made);  // there is a device
      const std::int64_t scores = std::int64_t{2} * 3 * 65 * 65 * 2;
      CHECK(attention.workspace_bytes() >= (gradient ? scores : 0));  // dp of bf16, at least
    } catch (const RuntimeFailure& failure) {
      const std::string message = failure.what();
      CHECK(message.starts_with("cudnnBackendFinalize for attention "));
      CHECK_THAT(message, REWIRE_CATCH_CONTAINS("cuLibraryLoadData returned error"));
    }
  }
}

ir::ConvShape square(std::int64_t batch, std::int64_t inputs, std::int64_t outputs, std::int64_t in,
                     std::int64_t kernel, std::int64_t stride, std::int64_t groups = 1) {
  const std::int64_t padding = kernel / 2, out = (in + 2 * padding - kernel) / stride + 1;
  return {batch,
          inputs,
          outputs,
          groups,
          {in, in},
          {out, out},
          {kernel, kernel},
          {stride, stride},
          {padding, padding}};
}

TEST_CASE(
    "cuDNN has deterministic engines of f32 for the zoo's convolutions in either layout, and more in TF32") {
  if (const std::string why = missing(); !why.empty()) {
    WARN("not run: " << why);
    return;
  }
  const std::vector<ir::ConvShape> shapes = {square(64, 3, 64, 32, 3, 1),   square(64, 64, 128, 32, 3, 2),
                                             square(64, 512, 512, 4, 3, 1), square(64, 64, 128, 32, 1, 2),
                                             square(32, 3, 64, 224, 7, 2),  square(1, 3, 5, 7, 3, 3),
                                             square(2, 6, 4, 9, 3, 1, 2),   square(1, 1, 1, 1, 1, 1)};
  for (const int arch : {80, 90, 100}) {
    const codegen::Cudnn library(properties(arch));
    for (const ir::ConvShape& shape : shapes) {
      for (const ir::Opcode code :
           {ir::Opcode::conv2d, ir::Opcode::conv2d_input_grad, ir::Opcode::conv2d_weight_grad}) {
        for (const bool channels_last : {false, true}) {
          codegen::DeviceConvolution c{code, shape, channels_last};
          CAPTURE(codegen::full_name(c), arch);
          const codegen::CudnnConvolution plain(library, c, kWorkspaceLimit);  // with a plan
          for (const std::string& engine : plain.engines()) CHECK(codegen::is_engine_text(engine));
          c.tf32 = true;
          CHECK(codegen::CudnnConvolution(library, c, kWorkspaceLimit).engines().size() >
                plain.engines().size());
        }
      }
    }
  }
}

}  // namespace
}  // namespace rewire::test
