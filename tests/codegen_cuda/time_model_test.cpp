// The model of a launch's time where the answer follows from the data sheet: what only moves goes at the
// memory's rate, large products at the tensor cores', and a few blocks leave multiprocessors idle.
#include "codegen/cuda/time_model.h"

#include "ir/builder.h"
#include "ir/error.h"
#include "ir/opcodes.h"
#include "tests/support/catch.h"
#include "tests/support/tile_builder.h"

namespace rewire::test {
namespace {

using namespace codegen::cuda;  // NOLINT: the subject of this file
using codegen::Program;
using ir::DType;

Prediction of_first(const Program& program, const Card& on, bool tf32 = false) {
  return predict(program, program.launches.front(), device_target(on.arch), on, tf32);
}

/// y = f(x), n elements of f32 in rows of `lanes`, each element through `repeats` of an op.
Program map_of(std::int64_t rows, std::int64_t lanes, ir::Opcode code, int repeats) {
  TileBuilder t("map");
  const auto r = t.outer("r", rows);
  const auto c = t.lane("c", lanes);
  const auto x = t.input("x"), y = t.output("y");
  auto value = t.load(x, {{r, lanes}, {c, 1}});
  for (int i = 0; i < repeats; ++i) value = t.op(code, {value});
  t.store(y, value, {{r, lanes}, {c, 1}});
  Program program;
  for (const char* name : {"x", "y"})
    program.buffers.push_back({name, codegen::BufferKind::temporary, {DType::f32, {rows, lanes}}, {}});
  program.launches.emplace_back(codegen::KernelLaunch{t.finish(), {0, 1}});
  return program;
}

/// c = a b, of bf16 or f32.
Program product_of(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype) {
  Program program;
  codegen::GemmLaunch gemm;
  const auto matrix = [&](std::int64_t rows, std::int64_t columns) {
    program.buffers.push_back({"", codegen::BufferKind::temporary, {dtype, {rows, columns}}, {}});
    const auto index = static_cast<std::int32_t>(program.buffers.size()) - 1;
    return codegen::View{index, 0, {1, rows, columns}, {rows * columns, columns, 1}};
  };
  gemm.a = matrix(m, k), gemm.b = matrix(k, n), gemm.c = matrix(m, n);
  program.launches.emplace_back(gemm);
  return program;
}

TEST_CASE("a card's target has its own multiprocessors and its architecture's shared memory") {
  const DeviceTarget small = card_target(card("l4")), large = card_target(card("rtx5090"));
  CHECK(small.multiprocessors == 58);
  CHECK(small.shared_bytes_per_block == 101376);
  CHECK(large.arch == 120);
  CHECK(large.multiprocessors == 170);
  for (const std::string& name : card_names())
    CHECK(card_target(card(name)).multiprocessors <= device_target(card(name).arch).multiprocessors);
}

TEST_CASE("what only moves takes its bytes at a copy's rate, and little more") {
  for (const std::string& name : card_names()) {
    CAPTURE(name);
    const Card& on = card(name);
    const std::int64_t rows = 1 << 16, lanes = 1024;
    const Prediction told = of_first(map_of(rows, lanes, ir::Opcode::neg, 1), on);
    const double expected = 2 * 4.0 * static_cast<double>(rows * lanes) / (0.86 * on.bytes_per_second);
    CHECK(told.bound == Bound::memory);
    CHECK(told.seconds > expected);
    CHECK(told.seconds < 1.15 * expected);
  }
}

TEST_CASE(
    "a launch takes at least its bytes at a copy's rate, and its FLOPs at what a large product sustains") {
  for (const std::string& name : card_names()) {
    CAPTURE(name);
    const Card& on = card(name);
    const double rate = 0.86 * on.bytes_per_second;
    const auto least = [&](const Program& program, bool tf32 = false) {
      return of_first(program, on, tf32).least_seconds;
    };
    const std::int64_t rows = 1 << 12, lanes = 1024;
    const double elements = static_cast<double>(rows * lanes);
    CHECK(least(map_of(rows, lanes, ir::Opcode::neg, 1)) == Approx(8 * elements / rate));
    CHECK(least(map_of(rows, lanes, ir::Opcode::neg, 10000)) == Approx(1e4 * elements / on.f32_flops));
    const double flops = 2.0 * 4096 * 4096 * 4096;
    CHECK(least(product_of(4096, 4096, 4096, DType::bf16)) == Approx(flops / (0.8 * on.bf16_flops)));
    CHECK(least(product_of(4096, 4096, 4096, DType::f32)) == Approx(flops / on.f32_flops));
    CHECK(least(product_of(4096, 4096, 4096, DType::f32), true) == Approx(flops / (0.8 * on.tf32_flops)));
    CHECK(least(product_of(4096, 4096, 8, DType::bf16)) == Approx(2 * (4096.0 * 4096 + 2 * 4096 * 8) / rate));
    CHECK(least(map_of(4, 64, ir::Opcode::neg, 1)) <
          1e-2 * of_first(map_of(4, 64, ir::Opcode::neg, 1), on).seconds);
  }
}

TEST_CASE("what computes much is bound by its units, and a few rows by the launch") {
  const Card& on = card("h100");
  const std::int64_t rows = 132 * 128, lanes = 1024;  // waves of blocks, all of them full
  CHECK(of_first(map_of(rows, lanes, ir::Opcode::neg, 200), on).bound == Bound::f32);
  CHECK(of_first(map_of(rows, lanes, ir::Opcode::exp, 40), on).bound == Bound::special);
  CHECK(of_first(map_of(4, 64, ir::Opcode::neg, 1), on).bound == Bound::launch);
  // Twice the work takes twice as long, beside the launch.
  const double once = of_first(map_of(rows, lanes, ir::Opcode::exp, 40), on).seconds,
               twice = of_first(map_of(2 * rows, lanes, ir::Opcode::exp, 40), on).seconds;
  const double launch = of_first(map_of(4, 64, ir::Opcode::neg, 1), on).seconds;
  CHECK(twice - launch == Approx(2 * (once - launch)).epsilon(0.01));
}

/// y = x * w, maps of 56 x 56 with their channels last, and its gradients.
Program convolution_of(ir::Opcode code, std::int64_t batch, std::int64_t channels, DType dtype) {
  Program program;
  const auto view = [&](ir::Shape shape) {
    program.buffers.push_back({"", codegen::BufferKind::temporary, {dtype, shape}, {}});
    const auto index = static_cast<std::int32_t>(program.buffers.size()) - 1;
    ir::Shape strides = ir::row_major_strides(shape);
    return codegen::View{index, 0, std::move(shape), std::move(strides)};
  };
  const ir::Shape maps = {batch, 56, 56, channels}, weight = {channels, channels, 3, 3};
  const bool of_weight = code == ir::Opcode::conv2d_weight_grad;
  codegen::OpCall call;
  call.op.code = code;
  call.op.attributes = {{"strides", ir::Ints{1, 1}},
                        {"padding", ir::Ints{1, 1}},
                        {"groups", std::int64_t{1}},
                        {"layout", std::string("nhwc")}};
  if (of_weight) call.op.attributes.set("kernel", ir::Ints{3, 3});
  if (code == ir::Opcode::conv2d_input_grad) call.op.attributes.set("size", ir::Ints{56, 56});
  call.operands = {view(maps), view(of_weight ? maps : weight)};
  call.results = {view(of_weight ? weight : maps)};
  program.launches.emplace_back(call);
  return program;
}

TEST_CASE("a convolution is counted by its multiply-adds at the rate of what computes it, and by its bytes") {
  const Card& on = card("h100");
  for (const ir::Opcode code :
       {ir::Opcode::conv2d, ir::Opcode::conv2d_input_grad, ir::Opcode::conv2d_weight_grad}) {
    const double flops = 2 * 256.0 * 56 * 56 * 128 * 128 * 9;
    const Program program = convolution_of(code, 256, 128, DType::f32);
    const Prediction plain = of_first(program, on), tf32 = of_first(program, on, true),
                     bf16 = of_first(convolution_of(code, 256, 128, DType::bf16), on);
    CHECK(plain.bound == Bound::f32);
    CHECK(plain.seconds > flops / on.f32_flops);
    CHECK(plain.seconds < 2 * flops / on.f32_flops);
    CHECK(tf32.bound == Bound::tensor);
    CHECK(tf32.seconds > flops / on.tf32_flops);
    CHECK(tf32.seconds < plain.seconds / 3);
    CHECK(bf16.seconds < tf32.seconds);
    const Prediction narrow = of_first(convolution_of(code, 256, 8, DType::bf16), on);
    CHECK(narrow.bound == Bound::memory);
  }
}

TEST_CASE("large products reach most of their type's rate, and long sums for few elements are cut") {
  const Card& on = card("h200");
  const std::int64_t n = 8192;
  const double flops = 2 * static_cast<double>(n) * n * n;
  const double bf16 = of_first(product_of(n, n, n, DType::bf16), on).seconds,
               f32 = of_first(product_of(n, n, n, DType::f32), on).seconds,
               tf32 = of_first(product_of(n, n, n, DType::f32), on, true).seconds;
  CHECK(bf16 > flops / (0.9 * on.bf16_flops));
  CHECK(bf16 < flops / (0.6 * on.bf16_flops));  // also the L2 cache bounds it
  CHECK(f32 == Approx(flops / (0.8 * on.f32_flops)).epsilon(0.15));
  CHECK(tf32 < f32 / 4);
  CHECK(bf16 < tf32);
  // Without parts nine multiprocessors of 132 would work.
  const std::int64_t terms = 1 << 16;
  const double weights = 2.0 * 384 * 384 * static_cast<double>(terms);
  CHECK(of_first(product_of(384, 384, terms, DType::bf16), on).seconds < 6 * weights / on.bf16_flops);
}

TEST_CASE("a card that nobody knows is named with those that are") {
  CHECK_THROWS_AS(card("h300"), UserError);
}

}  // namespace
}  // namespace rewire::test
