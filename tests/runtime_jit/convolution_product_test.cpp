// Convolutions by our own product, and by the library, against the evaluator: windows of every kind, channels that fill no block, maps in one band
// and in many, parts of the batch; for each kind of vector that this machine has. Memory that a task may not read before it is
// written is NaN.
#include "runtime/exec/cpu/convolution_product.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "codegen/llvm/jit.h"
#include "ir/builder.h"
#include "ir/evaluate.h"
#include "ir/opcodes.h"
#include "ir/ops/convolution.h"
#include "ir/ops/op_info.h"
#include "runtime/exec/cpu/op_calls.h"
#include "runtime/io/host_tensor.h"
#include "tests/runtime_jit/poisoned_run.h"
#include "tests/support/catch.h"

namespace rewire::runtime {
namespace {

using ir::ConvShape;
using ir::Ints;
using ir::Opcode;
using ir::Shape;

constexpr Opcode kProducts[] = {Opcode::conv2d, Opcode::conv2d_input_grad, Opcode::conv2d_weight_grad};

/// Batch, inputs, outputs and windows; the extents of the result follow.
ConvShape shape_of(std::int64_t batch, std::int64_t inputs, std::int64_t outputs, ConvShape::Plane in,
                   ConvShape::Plane kernel, ConvShape::Plane stride, ConvShape::Plane padding) {
  ConvShape shape{batch, inputs, outputs, 1, in, {}, kernel, stride, padding};
  shape.out = {(in.height + 2 * padding.height - kernel.height) / stride.height + 1,
               (in.width + 2 * padding.width - kernel.width) / stride.width + 1};
  return shape;
}

ir::Tensor uniform(const ir::TensorType& type, std::mt19937& random) {
  ir::Tensor tensor(type);
  std::uniform_real_distribution<float> between(-1, 1);
  for (double& x : tensor.data) x = between(random);
  return tensor;
}

codegen::View dense(std::int32_t buffer, const Shape& shape) {
  codegen::View view{buffer, 3, shape, Shape(shape.size(), 1)};
  for (std::size_t d = shape.size() - 1; d-- > 0;) view.strides[d] = view.strides[d + 1] * shape[d + 1];
  return view;
}

/// One of the products of a convolution, its operands, and what the evaluator makes of them.
struct ConvSetting {
  ConvSetting(Opcode code, const ConvShape& shape, unsigned seed, const char* layout = "nhwc") {
    ir::Function& main = module.functions.emplace_back();
    main.name = "main";
    ir::Builder b(module, main);
    ir::Attributes attributes = {{"strides", Ints{shape.stride.height, shape.stride.width}},
                                 {"padding", Ints{shape.padding.height, shape.padding.width}},
                                 {"groups", shape.groups},
                                 {"layout", layout}};
    if (code == Opcode::conv2d_input_grad) attributes.set("size", Ints{shape.in.height, shape.in.width});
    if (code == Opcode::conv2d_weight_grad)
      attributes.set("kernel", Ints{shape.kernel.height, shape.kernel.width});
    const bool last = ir::is_channels_last(attributes);
    const Shape first = code == Opcode::conv2d_input_grad ? shape.output(last) : shape.input(last);
    const Shape second = code == Opcode::conv2d_weight_grad ? shape.output(last) : shape.weight();
    const ir::Value x = b.argument("x", {ir::DType::f32, first}),
                    y = b.argument("y", {ir::DType::f32, second});
    const ir::Value result = b.emit(code, {x, y}, attributes);
    b.result("result", result);
    std::mt19937 random(seed);
    operands = {uniform(main.type(x), random), uniform(main.type(y), random)};
    for (const Shape& of : {first, second, main.type(result).shape})
      program.buffers.push_back(
          {"", codegen::BufferKind::temporary, {ir::DType::f32, {3 + ir::element_count(of)}}, {}});
    call.op = main.body.back();
    call.operands = {dense(0, first), dense(1, second)};
    call.results = {dense(2, main.type(result).shape)};
  }
  ir::Tensor expected() const {
    ir::EvalState state;
    return ir::evaluate(module, module.functions[0], operands, state)[0];
  }

  ir::Module module;
  std::vector<ir::Tensor> operands;
  codegen::Program program;
  codegen::OpCall call;
};

std::vector<float> run(const ConvSetting& setting, CpuLaunch& launch, bool backwards) {
  std::vector<HostTensor> buffers;
  BufferPointers pointers;
  for (const codegen::Buffer& buffer : setting.program.buffers)
    buffers.push_back(test::poisoned(buffer.type.elements()));
  for (std::size_t i = 0; i < 2; ++i)
    std::ranges::copy(setting.operands[i].data, buffers[i].as<float>().begin() + 3);
  for (HostTensor& buffer : buffers) pointers.push_back(buffer.bytes().data());
  test::run_poisoned(launch, pointers, backwards);
  const std::span<const float> result = buffers[2].as<float>();
  CHECK((std::isnan(result[0]) && std::isnan(result[1]) && std::isnan(result[2])));
  return {result.begin() + 3, result.end()};
}

void check(Opcode code, const ConvShape& shape, const codegen::ProductCode& product, unsigned seed) {
  const ConvSetting setting(code, shape, seed);
  CAPTURE(seed, ir::describe(setting.call.op), shape.batch, shape.inputs, shape.outputs, shape.in.height,
          shape.in.width, shape.out.height, shape.out.width, product.block.columns);
  const ir::Tensor expected = setting.expected();
  const double terms = shape.multiply_adds() / static_cast<double>(expected.data.size());
  const auto holds = [&](CpuLaunch& launch, double of_a_term) {
    const std::vector<float> result = run(setting, launch, false);
    REQUIRE(result.size() == expected.data.size());
    double worst = 0;
    for (std::size_t i = 0; i < result.size(); ++i) {
      const double error = std::abs(double{result[i]} - expected.data[i]);
      worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
    }
    CHECK(worst < of_a_term * std::sqrt(terms) + 1e-6);
    const std::vector<float> again = run(setting, launch, true);
    CHECK(std::memcmp(result.data(), again.data(), result.size() * sizeof(float)) == 0);
  };
  if (takes_convolution(setting.program, setting.call)) {
    INFO("by products");
    holds(*make_convolution_launch(setting.call, product), 2e-6);
  }
  INFO("by the library");
  const auto library = make_library_launch(setting.program, setting.call);
  if (library != nullptr) holds(*library, 4e-6);  // which adds up all of a sum in one chain
}

std::vector<ConvShape> shapes() {
  return {
      shape_of(2, 16, 16, {5, 6}, {3, 3}, {1, 1}, {1, 1}),
      shape_of(3, 17, 35, {9, 13}, {3, 3}, {1, 1}, {1, 1}),
      shape_of(5, 130, 20, {4, 4}, {3, 3}, {1, 1}, {1, 1}),
      shape_of(2, 20, 70, {19, 18}, {3, 3}, {2, 2}, {1, 1}),
      shape_of(1, 64, 48, {40, 33}, {3, 3}, {1, 1}, {1, 1}),
      shape_of(2, 33, 16, {7, 9}, {1, 1}, {2, 3}, {0, 0}),
      shape_of(1, 16, 150, {11, 6}, {5, 2}, {1, 1}, {4, 0}),
      shape_of(2, 24, 18, {8, 7}, {1, 4}, {1, 1}, {0, 3}),
      shape_of(1, 16, 16, {6, 450}, {3, 3}, {1, 1}, {1, 1}),
      shape_of(37, 18, 66, {3, 2}, {3, 3}, {1, 1}, {1, 1}),
      shape_of(2, 16, 16, {12, 12}, {3, 3}, {3, 5}, {2, 2}),
      shape_of(1, 140, 40, {6, 5}, {3, 3}, {1, 1}, {0, 0}),
      shape_of(2, 19, 21, {1, 1}, {3, 3}, {1, 1}, {1, 1}),
      shape_of(1, 512, 17, {14, 14}, {3, 3}, {1, 1}, {1, 1}),
      shape_of(32, 4, 8, {32, 32}, {1, 1}, {2, 2}, {0, 0}),
  };
}

TEST_CASE(
    "convolutions by products and by the library equal the evaluator's, whoever computes their tasks in "
    "whatever order") {
  std::vector<std::string> targets = {"", "x86-64"};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) targets.emplace_back("haswell");
  for (const std::string& target : targets) {
    CAPTURE(target);
    codegen::CpuJit jit({"", 1, target});
    unsigned seed = 1;
    for (const ConvShape& shape : shapes()) {
      for (const Opcode code : kProducts) {
        check(code, shape, jit.product(), seed++);
      }
    }
  }
}

TEST_CASE("convolutions of random windows and extents by products") {
  codegen::CpuJit jit({"", 1, ""});
  const auto seed = static_cast<unsigned>(std::random_device{}());
  std::mt19937 random(seed);
  const auto below = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(0, most - 1)(random);
  };
  for (unsigned i = 0; i < 40; ++i) {
    const ConvShape::Plane kernel = {1 + below(4), 1 + below(4)},
                           padding = {below(kernel.height), below(kernel.width)};
    const ConvShape::Plane stride =
        below(2) == 0 ? ConvShape::Plane{} : ConvShape::Plane{1 + below(3), 1 + below(3)};
    const ConvShape shape = shape_of(1 + below(6), 16 + below(60), 16 + below(60),
                                     {4 + below(20), 4 + below(20)}, kernel, stride, padding);
    const Opcode code = kProducts[below(3)];
    check(code, shape, jit.product(), seed + i);
  }
}

TEST_CASE("convolutions of other layouts, few channels, thin maps or groups are the library's") {
  const ConvShape plain = shape_of(2, 16, 16, {5, 6}, {3, 3}, {1, 1}, {1, 1});
  const ConvSetting planes(Opcode::conv2d, plain, 1, "nchw");
  CHECK_FALSE(takes_convolution(planes.program, planes.call));
  ConvShape few = plain, groups = plain, strided = plain;
  few.inputs = 15;
  const ConvSetting narrow(Opcode::conv2d_weight_grad, few, 1);
  CHECK_FALSE(takes_convolution(narrow.program, narrow.call));
  groups.inputs = groups.outputs = 32, groups.groups = 2;
  const ConvSetting grouped(Opcode::conv2d, groups, 1);
  CHECK_FALSE(takes_convolution(grouped.program, grouped.call));
  for (const Opcode code : {Opcode::conv2d, Opcode::conv2d_input_grad}) {
    const ConvSetting thin(code, shape_of(2, 16, 16, {5, 3}, {3, 3}, {1, 1}, {1, 1}), 1);
    CHECK_FALSE(takes_convolution(thin.program, thin.call));
  }
  for (const Opcode code : kProducts) {
    const ConvSetting taken(code, plain, 1);
    CHECK(takes_convolution(taken.program, taken.call));
  }
  strided = shape_of(2, 16, 16, {5, 6}, {3, 3}, {2, 2}, {1, 1});
  const ConvSetting gradient(Opcode::conv2d_input_grad, strided, 1);
  CHECK_FALSE(takes_convolution(gradient.program, gradient.call));
  ConvSetting half(Opcode::conv2d, plain, 1);
  half.program.buffers[1].type.dtype = ir::DType::bf16;
  CHECK_FALSE(takes_convolution(half.program, half.call));
}

}  // namespace
}  // namespace rewire::runtime
