// Matrix products by cuBLASLt against sums in double precision, on the fake library: every way a matrix may
// lie in memory, types, bias, batches; capture, errors and what is given back.
#include "codegen/library/cublas_lt.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <vector>

#include "ir/error.h"
#include "ir/tensor.h"
#include "runtime/device/cuda/device.h"
#include "runtime/io/host_tensor.h"
#include "tests/runtime_cuda/fake_run.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime::cuda {
namespace {

using codegen::CublasLt;
using codegen::DeviceGemm;
using codegen::DeviceGemmShape;
using codegen::GemmEpilogue;
using ir::DType;

constexpr std::int64_t kWorkspaceLimit = 1 << 20;

void* pointer(Address address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

/// A device's buffer with its values on the host.
class Operand {
 public:
  Operand(DType dtype, std::int64_t elements, std::mt19937_64& random, const Stream& stream)
      : tensor_({dtype, {elements}}),
        host_(tensor_.type().bytes(), "an operand"),
        device_(tensor_.type().bytes(), "an operand") {
    ir::Tensor values({dtype, {elements}});
    for (double& value : values.data) value = std::uniform_real_distribution<double>(-1, 1)(random);
    tensor_ = to_host(values);
    std::ranges::copy(tensor_.bytes(), host_.bytes().begin());
    stream.copy_in(device_.address(), host_.bytes().data(), tensor_.type().bytes(), "of an operand");
  }

  void* at(std::int64_t element) const {
    return pointer(device_.address() + static_cast<Address>(element) * ir::dtype_bytes(tensor_.type().dtype));
  }
  std::vector<double> values() const { return to_double(tensor_).data; }
  std::vector<double> read(const Stream& stream) {
    stream.copy_out(host_.bytes().data(), device_.address(), tensor_.type().bytes(), "of an operand");
    stream.synchronise("of the test");
    std::ranges::copy(host_.bytes(), tensor_.bytes().begin());
    return values();
  }

 private:
  HostTensor tensor_;
  PinnedMemory host_;
  DeviceMemory device_;
};

std::int64_t elements(const DeviceGemmShape::Matrix& matrix, std::int64_t batch, std::int64_t rows,
                      std::int64_t columns) {
  return (batch - 1) * matrix.batch + (rows - 1) * matrix.row + (columns - 1) * matrix.column + 1;
}

/// A shape with gaps between rows, either operand transposed or repeated.
DeviceGemmShape random_shape(std::mt19937_64& random) {
  const auto integer = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  DeviceGemmShape shape;
  shape.batch = integer(0, 1) == 0 ? 1 : integer(2, 4);
  shape.m = integer(1, 24), shape.n = integer(1, 24), shape.k = integer(1, 40);
  shape.dtype =
      std::vector{DType::f32, DType::bf16, DType::f16, DType::f64}[static_cast<std::size_t>(integer(0, 3))];
  const bool half = shape.dtype == DType::bf16 || shape.dtype == DType::f16;
  shape.result = half && integer(0, 1) == 0 ? DType::f32 : shape.dtype;
  shape.bias = integer(0, 1) == 0;
  shape.accumulate = integer(0, 2) == 0;
  const auto matrix = [&](std::int64_t rows, std::int64_t columns, bool any) {
    DeviceGemmShape::Matrix made;
    if (any && integer(0, 1) == 0) {
      made.row = 1, made.column = rows + integer(0, 5);
    } else {
      made.column = 1, made.row = columns + integer(0, 5);
    }
    made.batch = shape.batch == 1 || (any && integer(0, 3) == 0)
                     ? 0
                     : elements(made, 1, rows, columns) + integer(0, 9);
    made.alignment = static_cast<std::int64_t>(ir::dtype_bytes(shape.dtype));
    return made;
  };
  shape.a = matrix(shape.m, shape.k, true);
  shape.b = matrix(shape.k, shape.n, true);
  shape.c = matrix(shape.m, shape.n, false);
  shape.c.alignment = static_cast<std::int64_t>(ir::dtype_bytes(shape.result));
  return shape;
}

double epsilon(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 0x1p-8;
    case DType::f16:
      return 0x1p-11;
    case DType::f64:
      return 0x1p-50;
    default:
      return 0x1p-22;
  }
}

TEST_CASE("matrices in any layout multiply") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    fake().reset();
    std::mt19937_64 random(seed);
    const DeviceGemmShape shape = random_shape(random);
    CAPTURE(seed, codegen::short_name(shape), ir::dtype_name(shape.dtype));
    const Context context;
    const Stream stream;
    const CublasLt library;
    DeviceGemm gemm(library, shape, kWorkspaceLimit, 2);
    if (gemm.algorithms().size() > 1) gemm.choose(static_cast<int>(seed % 2));
    const Operand a(shape.dtype, 3 + elements(shape.a, shape.batch, shape.m, shape.k), random, stream);
    const Operand b(shape.dtype, 1 + elements(shape.b, shape.batch, shape.k, shape.n), random, stream);
    Operand c(shape.result, elements(shape.c, shape.batch, shape.m, shape.n), random, stream);
    const Operand bias(shape.result, shape.n, random, stream);
    const std::vector<double> x = a.values(), y = b.values(), before = c.values(), row = bias.values();
    const DeviceMemory workspace(gemm.workspace_bytes(), "the workspace");

    gemm.run({a.at(3), b.at(1), c.at(0), bias.at(0)}, pointer(workspace.address()), stream.handle());

    const std::vector<double> after = c.read(stream);
    std::vector<bool> written(after.size(), false);
    double worst = 0;
    const auto at = [](const DeviceGemmShape::Matrix& matrix, std::int64_t batch, std::int64_t i,
                       std::int64_t j) {
      return static_cast<std::size_t>(batch * matrix.batch + i * matrix.row + j * matrix.column);
    };
    for (std::int64_t batch = 0; batch < shape.batch; ++batch) {
      for (std::int64_t i = 0; i < shape.m; ++i) {
        for (std::int64_t j = 0; j < shape.n; ++j) {
          const std::size_t element = at(shape.c, batch, i, j);
          double sum = shape.accumulate ? before[element] : 0, size = 1 + std::abs(sum);
          if (shape.bias) sum += row[static_cast<std::size_t>(j)];
          for (std::int64_t l = 0; l < shape.k; ++l) {
            const double term = x[3 + at(shape.a, batch, i, l)] * y[1 + at(shape.b, batch, l, j)];
            sum += term, size += std::abs(term);
          }
          written[element] = true;
          worst = std::max(worst, std::abs(after[element] - sum) / size / epsilon(shape.result));
        }
      }
    }
    CHECK(worst < 1);
    for (std::size_t i = 0; i < after.size(); ++i) {
      if (!written[i] && after[i] != before[i]) FAIL_CHECK("wrote to the gap at " << i);
    }
    CHECK(std::string(fake().faults()).empty());
  }
  CHECK(std::string(fake().live()).empty());
}

double gelu_inner(double x) {
  return std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
}
double gelu(double x) {
  return x * (1 + std::tanh(gelu_inner(x))) / 2;
}
/// By a difference, good to some 1e-9.
double gelu_slope(double x) {
  return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5;
}

/// One product with GELU or its gradient: rows of any number of elements, gaps behind them.
DeviceGemmShape random_activated_shape(std::mt19937_64& random, GemmEpilogue epilogue) {
  const auto integer = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  DeviceGemmShape shape = random_shape(random);
  shape.batch = 1, shape.accumulate = false, shape.bias = true, shape.epilogue = epilogue;
  shape.a.batch = shape.b.batch = shape.c.batch = 0;
  if (shape.dtype == DType::f64) shape.dtype = shape.result = DType::f32;
  shape.a.alignment = shape.b.alignment = static_cast<std::int64_t>(ir::dtype_bytes(shape.dtype));
  shape.c.alignment = static_cast<std::int64_t>(ir::dtype_bytes(shape.result));
  if (epilogue == GemmEpilogue::gelu_gradient || integer(0, 1) == 0)
    shape.pre = {0, (shape.n + 7) / 8 * 8 + 8 * integer(0, 1), 1, 16};
  return shape;
}

TEST_CASE("a product computes GELU by tanh and its gradient, of rows of any length") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    fake().reset();
    std::mt19937_64 random(seed);
    const bool gradient = seed % 2 == 0;
    const DeviceGemmShape shape =
        random_activated_shape(random, gradient ? GemmEpilogue::gelu_gradient : GemmEpilogue::gelu);
    CAPTURE(seed, codegen::full_name(shape));
    const Context context;
    const Stream stream;
    const CublasLt library;
    DeviceGemm gemm(library, shape, kWorkspaceLimit, 2);
    if (gemm.algorithms().size() > 1) gemm.choose(static_cast<int>(seed / 2 % 2));
    const Operand a(shape.dtype, elements(shape.a, 1, shape.m, shape.k), random, stream);
    const Operand b(shape.dtype, elements(shape.b, 1, shape.k, shape.n), random, stream);
    Operand c(shape.result, elements(shape.c, 1, shape.m, shape.n), random, stream);
    Operand bias(shape.result, shape.n, random, stream);
    Operand pre(shape.result, elements({0, std::max<std::int64_t>(shape.pre.row, 1), 1}, 1, shape.m, shape.n),
                random, stream);
    const std::vector<double> x = a.values(), y = b.values(), row = bias.values(), before = pre.values();
    const DeviceMemory workspace(gemm.workspace_bytes(), "the workspace");

    gemm.run({a.at(0), b.at(0), c.at(0), bias.at(0), shape.has_pre() ? pre.at(0) : nullptr},
             pointer(workspace.address()), stream.handle());

    const std::vector<double> result = c.read(stream), kept = pre.read(stream), sums = bias.read(stream);
    const auto at = [](const DeviceGemmShape::Matrix& matrix, std::int64_t i, std::int64_t j) {
      return static_cast<std::size_t>(i * matrix.row + j * matrix.column);
    };
    std::vector<bool> written(kept.size(), false);
    double worst = 0;
    const auto compare = [&](double actual, double expected, double size) {
      worst = std::max(worst, std::abs(actual - expected) / size / epsilon(shape.result));
    };
    for (std::int64_t j = 0; j < shape.n; ++j) {
      double column = 0, column_size = 1;
      for (std::int64_t i = 0; i < shape.m; ++i) {
        double sum = 0, size = 1;
        for (std::int64_t l = 0; l < shape.k; ++l) {
          const double term = x[at(shape.a, i, l)] * y[at(shape.b, l, j)];
          sum += term, size += std::abs(term);
        }
        const std::size_t place = shape.has_pre() ? at(shape.pre, i, j) : 0;
        if (gradient) {
          const double slope = gelu_slope(before[place]);
          compare(result[at(shape.c, i, j)], sum * slope, 2 * size);
          column += sum * slope, column_size += 2 * size;
        } else {
          sum += row[static_cast<std::size_t>(j)];
          compare(result[at(shape.c, i, j)], gelu(sum), 2 * size);
          if (shape.has_pre()) compare(kept[place], sum, size), written[place] = true;
        }
      }
      if (gradient) compare(sums[static_cast<std::size_t>(j)], column, column_size);
    }
    CHECK(worst < 1);
    for (std::size_t i = 0; i < kept.size(); ++i) {
      if (!written[i] && kept[i] != before[i]) FAIL_CHECK("wrote beside the result at " << i);
    }
    if (!gradient) CHECK(sums == row);
    CHECK(std::string(fake().faults()).empty());
  }
  CHECK(std::string(fake().live()).empty());
}

TEST_CASE("an epilogue that cuBLASLt has not is refused in one line, before it is asked") {
  fake().reset();
  const DeviceGemmShape fits{.m = 4,
                             .n = 5,
                             .k = 2,
                             .a = {0, 2, 1},
                             .b = {0, 5, 1, 4},
                             .c = {0, 5, 1, 4},
                             .bias = true,
                             .epilogue = GemmEpilogue::gelu,
                             .pre = {0, 8, 1, 16}};
  const Context context;
  const CublasLt library;
  CHECK(DeviceGemm(library, fits, 0).calls() == 1);
  const auto refusal = [&](auto change) {
    DeviceGemmShape shape = fits;
    change(shape);
    fake().reset();
    const std::string message =
        test::message_of<codegen::UnsupportedProduct>([&] { DeviceGemm(library, shape, 0); });
    CHECK(message.starts_with("gemm "));
    CHECK(message.find('\n') == std::string::npos);
    CHECK(fake().calls("cublasLtMatmulAlgoGetHeuristic") == 0);
    return message.substr(message.find(": ") + 2);
  };
  using Shape = DeviceGemmShape;
  CHECK(refusal([](Shape& shape) { shape.pre.row = 5; }) ==
        "rows of GELU's operand begin 5 elements apart, not a multiple of 8");
  CHECK(refusal([](Shape& shape) { shape.n = 9; }).starts_with("rows of GELU's operand begin 8 elements"));
  CHECK(refusal([](Shape& shape) { shape.pre.alignment = 8; }) ==
        "GELU's operand is aligned to 8 bytes, not 16");
  CHECK(refusal([](Shape& shape) { shape.batch = 2; }) == "GELU is for one product at a time");
  CHECK(refusal([](Shape& shape) { shape.dtype = shape.result = DType::f64; }) ==
        "GELU is for f32, bf16 and f16");
  CHECK(refusal([](Shape& shape) { shape.accumulate = true; }) ==
        "GELU needs a bias before it, and cannot accumulate");
  CHECK(refusal([](Shape& shape) { shape.epilogue = GemmEpilogue::gelu_gradient, shape.pre = {}; }) ==
        "the gradient needs GELU's operand");
  // Where the library refuses, its own words are told.
  fake().refuse("gelu");
  const std::string message =
      test::message_of<codegen::UnsupportedProduct>([&] { DeviceGemm(library, fits, 0); });
  CHECK(message.starts_with("cublasLtMatmulAlgoGetHeuristic for gemm 4x5x2 f32 + bias, gelu, pre a="));
  CHECK(message.find("CUBLAS_STATUS_NOT_SUPPORTED") != std::string::npos);
  fake().reset();
}

TEST_CASE("a matrix beside the result that is misaligned ends the call with a fault") {
  fake().reset();
  const DeviceGemmShape shape{.m = 4,
                              .n = 5,
                              .k = 2,
                              .a = {0, 2, 1, 4},
                              .b = {0, 5, 1, 4},
                              .c = {0, 5, 1, 4},
                              .bias = true,
                              .epilogue = GemmEpilogue::gelu_gradient,
                              .pre = {0, 8, 1, 16}};
  std::mt19937_64 random(1);
  const Context context;
  const Stream stream;
  const CublasLt library;
  const DeviceGemm gemm(library, shape, 0);
  const Operand a(DType::f32, 8, random, stream), b(DType::f32, 10, random, stream),
      bias(DType::f32, 5, random, stream), pre(DType::f32, 40, random, stream),
      c(DType::f32, 20, random, stream);
  const std::string message = test::message_of<RuntimeFailure>(
      [&] { gemm.run({a.at(0), b.at(0), c.at(0), bias.at(0), pre.at(1)}, nullptr, stream.handle()); });
  CHECK(message.starts_with("cublasLtMatmul for gemm 4x5x2 f32, gelu gradient a="));
  CHECK(std::string(fake().faults()).find("beside the result is not aligned") != std::string::npos);
  stream.synchronise("of the test");
  fake().reset();
}

TEST_CASE("TF32 rounds its operands, f32 does not") {
  DeviceGemmShape shape{.m = 1, .n = 1, .k = 1, .a = {0, 1, 1, 4}, .b = {0, 1, 1, 4}, .c = {0, 1, 1, 4}};
  std::mt19937_64 random(1);
  const Context context;
  const Stream stream;
  const CublasLt library;
  const Operand a(DType::f32, 1, random, stream), b(DType::f32, 1, random, stream);
  for (const bool tf32 : {false, true}) {
    shape.tf32 = tf32;
    const DeviceGemm gemm(library, shape, 0);
    CHECK(gemm.workspace_bytes() == 0);
    Operand c(DType::f32, 1, random, stream);
    gemm.run({a.at(0), b.at(0), c.at(0)}, nullptr, stream.handle());
    const double exact = a.values()[0] * b.values()[0], error = std::abs(c.read(stream)[0] - exact);
    CHECK((error > 1e-6 * std::abs(exact)) == tf32);
    CHECK(error < 1e-3 * std::abs(exact));
  }
}

TEST_CASE("a captured product runs when its graph does") {
  fake().reset();
  const DeviceGemmShape shape{.m = 4, .n = 3, .k = 2, .a = {0, 2, 1}, .b = {0, 3, 1, 4}, .c = {0, 3, 1, 4}};
  std::mt19937_64 random(2);
  const Context context;
  const Stream stream;
  const CublasLt library;
  const DeviceGemm gemm(library, shape, 0);
  const Operand a(DType::f32, 8, random, stream), b(DType::f32, 6, random, stream);
  Operand c(DType::f32, 12, random, stream);
  const std::vector<double> before = c.values();
  const Graph graph(stream, "the test",
                    [&] { gemm.run({a.at(0), b.at(0), c.at(0)}, nullptr, stream.handle()); });
  CHECK(c.read(stream) == before);
  graph.launch(stream, "the test");
  CHECK(c.read(stream) != before);
}

TEST_CASE("an error of every call names the call, and nothing is lost") {
  const DeviceGemmShape batched{.batch = 2,
                                .m = 4,
                                .n = 3,
                                .k = 2,
                                .a = {8, 2, 1, 8},
                                .b = {6, 3, 1, 4},
                                .c = {12, 3, 1, 4},
                                .bias = true};
  DeviceGemmShape activated = batched;
  activated.batch = 1;
  activated.epilogue = GENERATE(GemmEpilogue::none, GemmEpilogue::gelu, GemmEpilogue::gelu_gradient);
  activated.pre = {0, 8, 1, 16};
  const DeviceGemmShape shape = activated.epilogue == GemmEpilogue::none ? batched : activated;
  CAPTURE(codegen::full_name(shape));
  const auto run = [&] {
    const Context context;
    const Stream stream;
    const DeviceMemory a(64, "a"), b(64, "b"), c(128, "c"), bias(64, "the bias"), pre(128, "pre"),
        workspace(8192, "work");
    const CublasLt library;
    const DeviceGemm gemm(library, shape, kWorkspaceLimit);
    gemm.run({pointer(a.address()), pointer(b.address()), pointer(c.address()), pointer(bias.address()),
              pointer(pre.address())},
             pointer(workspace.address()), stream.handle());
  };
  fake().reset();
  run();
  std::vector<std::string> calls;
  for (const char* call : {"cublasLtCreate", "cublasLtMatmulDescCreate", "cublasLtMatmulDescSetAttribute",
                           "cublasLtMatrixLayoutCreate", "cublasLtMatrixLayoutSetAttribute",
                           "cublasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceSetAttribute",
                           "cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmulAlgoCheck", "cublasLtMatmul"}) {
    const long times = fake().calls(call);
    CHECK((times > 0 || shape.batch == 1));  // one product needs no attribute of its layouts
    for (long nth = 1; nth <= times; ++nth) {
      CAPTURE(call, nth);
      fake().reset();
      fake().fail(call, nth, 14);
      const std::string message = test::message_of<RuntimeFailure>(run);
      CHECK(message.starts_with(std::string(call) + " for "));
      CHECK(message.find("CUBLAS_STATUS of the fake library") != std::string::npos);
      CHECK(std::string(fake().live()).empty());
    }
    fake().reset();
    run();
  }
}

TEST_CASE("a launch is a call for each index before the innermost batch axis") {
  codegen::Program program;
  const auto buffer = [&](DType dtype, const ir::Shape& shape) {
    program.buffers.push_back({"", codegen::BufferKind::temporary, {dtype, shape}, {}});
    return static_cast<std::int32_t>(program.buffers.size()) - 1;
  };
  // The heads' queries and keys out of a projection [2, 5, 3 x 4 x 8].
  const std::int32_t qkv = buffer(DType::bf16, {2, 5, 96}), scores = buffer(DType::f32, {2, 4, 5, 5});
  codegen::GemmLaunch launch;
  launch.a = {qkv, 0, {2, 4, 5, 8}, {480, 8, 96, 1}};
  launch.b = {qkv, 32, {2, 4, 8, 5}, {480, 8, 1, 96}};
  launch.c = {scores, 0, {2, 4, 5, 5}, {100, 25, 5, 1}};
  const std::vector<codegen::DeviceGemmCall> calls = codegen::device_gemm_calls(program, launch, true);
  REQUIRE(calls.size() == 2);
  CHECK(calls[0].shape == calls[1].shape);
  const DeviceGemmShape& shape = calls[0].shape;
  CHECK(codegen::short_name(shape) == "gemm 4x5x5x8");
  CHECK(shape.a == DeviceGemmShape::Matrix{8, 96, 1, 16});
  CHECK(shape.b == DeviceGemmShape::Matrix{8, 1, 96, 16});
  CHECK(shape.c == DeviceGemmShape::Matrix{25, 5, 1, 4});
  CHECK(shape.dtype == DType::bf16);
  CHECK(shape.result == DType::f32);
  CHECK_FALSE(shape.tf32);  // of f32 operands alone
  CHECK(calls[1].a == 960);
  CHECK(calls[1].b == 960 + 64);
  CHECK(calls[0].b == 64);
  CHECK(calls[1].c == 400);
}

TEST_CASE("an algorithm is told in text that any process can take it from") {
  fake().reset();
  const DeviceGemmShape shape{.m = 4, .n = 3, .k = 6, .a = {0, 6, 1}, .b = {0, 3, 1, 4}, .c = {0, 3, 1, 4}};
  const Context context;
  const CublasLt library;
  const DeviceGemm first(library, shape, kWorkspaceLimit, 3);
  REQUIRE(first.algorithms().size() == 3);
  for (const std::string& text : first.algorithms()) {
    CAPTURE(text);
    CHECK(text.starts_with("cuBLASLt " + CublasLt::version() + " algorithm "));
    CHECK(codegen::is_algorithm_text(text));
    DeviceGemm other(library, shape, kWorkspaceLimit);  // knows one
    CHECK(other.choose(text));
    CHECK(other.chosen() == text);
    CHECK(other.workspace_bytes() == (text == first.algorithms()[0] ? 4096 : 0));
  }
  const std::string second = first.algorithms()[1];
  const std::size_t words = second.rfind(": ") + 2, version = std::string("cuBLASLt ").size();
  DeviceGemm gemm(library, shape, kWorkspaceLimit);
  for (const std::string& text :
       {second.substr(0, words) + "63" + second.substr(second.find('-', words)),  // there is no such one
        second.substr(0, version) + "1" + second.substr(version), second.substr(0, second.size() - 2),
        second + "-0", second + " ", std::string("cuBLASLt"), std::string()}) {
    CAPTURE(text);
    CHECK_FALSE(gemm.choose(text));
    CHECK(gemm.chosen() == first.algorithms()[0]);
  }
  CHECK(codegen::is_algorithm_text(second));
  CHECK_FALSE(codegen::is_algorithm_text(second + "-0"));
  CHECK_FALSE(codegen::is_algorithm_text(second.substr(0, second.size() - 2)));
  CHECK_FALSE(codegen::is_algorithm_text(second.substr(0, words) + "x-0-0-0-0-0-0-0"));
}

TEST_CASE("a matrix that is contiguous in neither direction is refused") {
  const Context context;
  const CublasLt library;
  const DeviceGemmShape shape{.m = 4, .n = 4, .k = 4, .a = {0, 8, 2}, .b = {0, 4, 1}, .c = {0, 4, 1}};
  const std::string message = test::message_of<InternalError>([&] { DeviceGemm(library, shape, 0); });
  CHECK(message.find("strides 8 and 2") != std::string::npos);
}

}  // namespace
}  // namespace rewire::runtime::cuda
