// Products as cuBLASLt takes them: launches become few calls that compute the same, and one that is refused
// is put another way, to the evaluator's results; at last one line says what was asked.
#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>

#include "codegen/library/device_gemm.h"
#include "ir/builder.h"
#include "ir/error.h"
#include "ir/verify.h"
#include "runtime/exec/cuda/engine.h"
#include "tests/runtime_cuda/fake_run.h"
#include "tests/support/accuracy.h"
#include "tests/support/catch.h"
#include "tests/support/host_noise.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

using codegen::DeviceGemmCall;
using codegen::DeviceGemmShape;
using codegen::View;
using ir::DType;
using ir::Value;

/// Where an element of the result lies, and the row and column that it is a product of: offsets of elements.
using Element = std::array<std::int64_t, 3>;

std::int64_t offset(const View& view, const ir::Shape& index) {
  std::int64_t elements = view.offset;
  for (std::size_t d = 0; d < index.size(); ++d) elements += index[d] * view.strides[d];
  return elements;
}

std::set<Element> elements(const codegen::GemmLaunch& launch) {
  std::set<Element> all;
  const ir::Shape& shape = launch.c.shape;
  for (std::int64_t i = 0; i < ir::element_count(shape); ++i) {
    ir::Shape index(shape.size());
    std::int64_t rest = i;
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) index[d] = rest % shape[d];
    ir::Shape row = index, column = index;
    row.back() = 0, column[shape.size() - 2] = 0;
    all.insert({offset(launch.c, index), offset(launch.a, row), offset(launch.b, column)});
  }
  return all;
}

std::set<Element> elements(const std::vector<DeviceGemmCall>& calls, std::int64_t bytes) {
  std::set<Element> all;
  for (const DeviceGemmCall& call : calls) {
    const DeviceGemmShape& shape = call.shape;
    for (std::int64_t batch = 0; batch < shape.batch; ++batch) {
      for (std::int64_t i = 0; i < shape.m; ++i) {
        for (std::int64_t j = 0; j < shape.n; ++j)
          all.insert({call.c / bytes + batch * shape.c.batch + i * shape.c.row + j * shape.c.column,
                      call.a / bytes + batch * shape.a.batch + i * shape.a.row,
                      call.b / bytes + batch * shape.b.batch + j * shape.b.column});
      }
    }
  }
  return all;
}

/// Buffers 0, 1, 2: a, b, c.
codegen::Program three_buffers(DType dtype) {
  codegen::Program program;
  for (int i = 0; i < 3; ++i)
    program.buffers.push_back({"", codegen::BufferKind::temporary, {dtype, {1 << 20}}, {}});
  return program;
}

std::vector<DeviceGemmCall> calls_of(const codegen::GemmLaunch& launch) {
  return codegen::device_gemm_calls(three_buffers(DType::bf16), launch, false);
}

TEST_CASE("the calls of a launch compute each of its elements once, of the same row and column") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const auto integer = [&](std::int64_t low, std::int64_t high) {
      return std::uniform_int_distribution<std::int64_t>(low, high)(random);
    };
    const auto rank = static_cast<std::size_t>(integer(2, 5));
    ir::Shape shape(rank), a_shape(rank), b_shape(rank);
    for (std::int64_t& extent : shape) extent = integer(1, 4);
    const std::int64_t k = integer(1, 3);
    a_shape = b_shape = shape;
    a_shape[rank - 1] = k, b_shape[rank - 2] = k;
    // Strides in a random order of the batch axes and rows, with gaps; b repeats along some.
    const auto view = [&](std::int32_t buffer, const ir::Shape& of, bool repeats) {
      View made{buffer, 8 * integer(0, 2), of, ir::Shape(rank, 1)};
      std::vector<std::size_t> order(rank - 1);
      for (std::size_t d = 0; d + 1 < rank; ++d) order[d] = d;
      if (integer(0, 2) == 0) std::ranges::shuffle(order, random);
      std::int64_t stride = of.back() + (integer(0, 3) == 0 ? integer(1, 3) : 0);
      for (std::size_t at = order.size(); at-- > 0;) {
        const std::size_t d = order[at];
        if (repeats && d + 2 < rank && integer(0, 1) == 0) {
          made.strides[d] = 0;
          continue;
        }
        made.strides[d] = stride;
        stride = stride * of[d] + (integer(0, 3) == 0 ? integer(1, 3) : 0);
      }
      for (std::size_t d = 0; d < rank; ++d) {
        if (of[d] == 1) made.strides[d] = 1;
      }
      return made;
    };
    codegen::GemmLaunch launch;
    launch.a = view(0, a_shape, false), launch.b = view(1, b_shape, true), launch.c = view(2, shape, false);
    const std::vector<DeviceGemmCall> calls = calls_of(launch);
    CHECK(elements(calls, 2) == elements(launch));
    std::int64_t computed = 0;
    for (const DeviceGemmCall& call : calls) {
      CHECK(call.shape == calls.front().shape);
      CHECK(call.shape.m * call.shape.n > 0);
      CHECK((call.shape.m == 1 || call.shape.a.row == 1 || call.shape.a.row >= call.shape.k));
      CHECK((call.shape.m == 1 || call.shape.c.row >= call.shape.n));
      computed += call.shape.batch * call.shape.m * call.shape.n;
      for (const auto& [at, matrix] : {std::pair{call.a, call.shape.a}, std::pair{call.b, call.shape.b},
                                       std::pair{call.c, call.shape.c}}) {
        CHECK(at % matrix.alignment == 0);
        CHECK(call.shape.batch * matrix.batch * 2 % matrix.alignment == 0);
      }
    }
    CHECK(computed == ir::element_count(shape));
  }
}

TEST_CASE("rows of all images are one matrix where they lie so, and the longest axis is the rows otherwise") {
  codegen::GemmLaunch launch;
  launch.a = {0, 0, {64, 5, 9, 16}, {720, 144, 16, 1}};
  launch.b = {1, 0, {64, 5, 16, 24}, {0, 0, 1, 16}};
  launch.c = {2, 0, {64, 5, 9, 24}, {1080, 216, 24, 1}};
  std::vector<DeviceGemmCall> calls = calls_of(launch);
  REQUIRE(calls.size() == 1);
  CHECK(codegen::full_name(calls[0].shape) == "gemm 2880x24x16 bf16 a=16,1@64 b=1,16@64 c=24,1@64");
  // Patches into a window of the tokens [64, 10, 24]: rows that no stride joins.
  launch.a = {0, 0, {64, 9, 16}, {144, 16, 1}};
  launch.b = {1, 0, {64, 16, 24}, {0, 1, 16}};
  launch.c = {2, 24, {64, 9, 24}, {240, 24, 1}};
  calls = calls_of(launch);
  REQUIRE(calls.size() == 1);
  CHECK(codegen::full_name(calls[0].shape) == "gemm 9x64x24x16 bf16 a=16,144,1@32 b=0,1,16@64 c=24,240,1@16");
  CHECK(calls[0].c == 48);
  // With more rows than images.
  launch.a.shape[0] = launch.b.shape[0] = launch.c.shape[0] = 8;
  CHECK(calls_of(launch)[0].shape.m == 9);
  CHECK(calls_of(launch)[0].shape.batch == 8);
  // Heads that lie side by side are one axis with the images.
  launch.a = {0, 0, {3, 4, 5, 8}, {160, 40, 8, 1}};
  launch.b = {1, 0, {3, 4, 8, 5}, {160, 40, 1, 8}};
  launch.c = {2, 0, {3, 4, 5, 5}, {100, 25, 5, 1}};
  calls = calls_of(launch);
  REQUIRE(calls.size() == 1);
  CHECK(codegen::short_name(calls[0].shape) == "gemm 12x5x5x8");
}

/// Patches times a weight, with a bias, behind another token; and products of heads. K = 7 is aligned to
/// nothing.
ir::Module patches(DType dtype) {
  ir::Module module;
  module.name = "patches";
  for (const auto& [name, shape] : std::map<std::string, ir::Shape>{{"weight", {12, 7}}, {"bias", {12}}}) {
    ir::Parameter parameter;
    parameter.name = name;
    parameter.type = {dtype, shape};
    module.add_parameter(parameter);
  }
  ir::Function& function = module.functions.emplace_back();
  function.name = "embed";
  ir::Builder b(module, function);
  const Value x = b.cast(b.argument("x", {DType::f32, {5, 3, 7}}), dtype);
  const Value first = b.cast(b.argument("first", {DType::f32, {5, 1, 12}}), dtype);
  b.set_location("patch_embed");
  const Value product = b.add(b.matmul(x, b.param("weight"), false, true), b.param("bias"));
  const Value tokens[] = {first, product};
  const Value all = b.concat(tokens, 1);
  b.result("tokens", b.cast(all, DType::f32));
  b.result("scores", b.cast(b.matmul(all, all, false, true), DType::f32));
  ir::verify(module);
  return module;
}

TensorMap run_embed(Engine& engine, DType dtype) {
  const auto noise = [dtype](const ir::Shape& shape, std::uint64_t seed) {
    return to_host(ir::Tensor({dtype, shape}, to_double(testing::noise(shape, seed)).data));
  };
  engine.write_state("weight", noise({12, 7}, 1));
  engine.write_state("bias", noise({12}, 2));
  TensorMap inputs;
  inputs.emplace("x", testing::noise({5, 3, 7}, 3));
  inputs.emplace("first", testing::noise({5, 1, 12}, 4));
  return engine.run("embed", inputs);
}

std::unique_ptr<JitEngine> checked_engine(const ir::Module& module) {
  CudaEngineOptions options;
  options.check_memory = true;
  return make_cuda_engine(module, options);
}

TEST_CASE("a product that cuBLASLt refuses is put another way, to the same results") {
  struct Refusal {
    const char* rules;
    long calls;  // of the two products, in the run that warms up and in the graph's capture
  };
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    const ir::Module module = patches(dtype);
    const TensorMap expected = run_embed(*make_evaluator_engine(module, Rounding::dtypes), dtype);
    const double tolerance = dtype == DType::bf16 ? 2e-2 : dtype == DType::f16 ? 2e-3 : 1e-5;
    for (const Refusal& refusal :
         {Refusal{"", 4}, Refusal{"bias", 4}, Refusal{"workspace", 4}, Refusal{"misaligned", 4},
          Refusal{"bias misaligned", 4}, Refusal{"repeat", 4}, Refusal{"batch", 12},
          Refusal{"batch bias misaligned workspace", 12}}) {
      CAPTURE(ir::dtype_name(dtype), refusal.rules);
      fake().reset();
      fake().refuse(refusal.rules);
      {
        const auto engine = checked_engine(module);
        const TensorMap actual = run_embed(*engine, dtype);
        for (const auto& [name, tensor] : expected) {
          CAPTURE(name);
          CHECK(testing::scaled_error(to_double(tensor), to_double(actual.at(name)), 0) <= tolerance);
        }
        CHECK(fake().calls("cublasLtMatmul") == refusal.calls);
        CHECK(fake().calls("cuLaunchHostFunc") == 0);  // no type goes to the host
      }
      CHECK(std::string(fake().faults()).empty());
      CHECK(std::string(fake().live()).empty());
    }
  }
  fake().reset();
}

TEST_CASE("a product that no way is left for is named in one line: the op, sizes, types, layout and status") {
  fake().reset();
  fake().refuse("all");
  const ir::Module module = patches(DType::bf16);
  const std::string message =
      test::message_of<RuntimeFailure>([&] { make_cuda_engine(module)->prepare("embed"); });
  CAPTURE(message);
  CHECK(message.starts_with("patch_embed: cublasLtMatmulAlgoGetHeuristic for "));
  CHECK(message.find("gemm 3x5x12x7 bf16 + bias a=") != std::string::npos);
  CHECK(message.find("CUBLAS_STATUS_NOT_SUPPORTED") != std::string::npos);
  CHECK(message.find('\n') == std::string::npos);
  fake().reset();
}

}  // namespace
}  // namespace rewire::runtime
