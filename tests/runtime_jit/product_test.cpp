// Products by code of our own against sums in double precision: every layout, odd extents, batches, biases, sums into c, for
// each kind of vector that this machine has. Memory that a task may not read before it is written is NaN.
#include "runtime/exec/cpu/product_launch.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "codegen/llvm/jit.h"
#include "runtime/exec/cpu/matrix_cut.h"
#include "runtime/io/host_tensor.h"
#include "tests/runtime_jit/poisoned_run.h"
#include "tests/support/catch.h"

namespace rewire::runtime {
namespace {

using codegen::View;

enum class Side : std::uint8_t { rows, columns };  // which neighbours lie side by side

struct Case {
  std::int64_t m, n, k;
  Side a = Side::rows, b = Side::rows;  // rows: along a row
  bool bias = false, accumulate = false;
  std::int64_t batch = 1;
  bool one_b = true;     // for all of the batch
  std::int64_t gap = 0;  // between lines
  bool fixed_b = false;  // b is the same in every run
};

/// [batch, rows, columns] in a buffer of its own.
View view_of(std::int32_t buffer, std::int64_t batch, std::int64_t rows, std::int64_t columns, Side side,
             std::int64_t gap) {
  const std::int64_t line = (side == Side::rows ? columns : rows) + gap;
  const std::int64_t lines = side == Side::rows ? rows : columns;
  View view{buffer, 3, {batch, rows, columns}, {lines * line, line, 1}};
  if (side == Side::columns) std::swap(view.strides[1], view.strides[2]);
  return view;
}

std::int64_t elements(const View& view) {
  std::int64_t last = view.offset;
  for (std::size_t d = 0; d < view.shape.size(); ++d) last += (view.shape[d] - 1) * view.strides[d];
  return last + 1;
}

HostTensor floats(std::int64_t count) {
  return HostTensor({ir::DType::f32, {std::max<std::int64_t>(count, 1)}});
}

using test::kNone;

struct Setting {
  explicit Setting(const Case& of, unsigned seed) {
    launch.a = view_of(0, of.batch, of.m, of.k, of.a, of.gap);
    launch.b = view_of(1, of.one_b ? 1 : of.batch, of.k, of.n, of.b, of.gap);
    if (of.one_b) launch.b.shape[0] = of.batch, launch.b.strides[0] = 0;
    launch.c = view_of(2, of.batch, of.m, of.n, Side::rows, of.gap);
    launch.accumulate = of.accumulate;
    if (of.bias) launch.bias = {3, 3, {of.n}, {1}};
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (const View* view : {&launch.a, &launch.b, &launch.c, &launch.bias}) {
      if (view->buffer < 0) continue;
      buffers.push_back(floats(elements(*view)));
      for (float& x : buffers.back().as<float>()) x = uniform(random);
      program.buffers.push_back({"", codegen::BufferKind::temporary, buffers.back().type(), {}});
    }
  }
  float at(const View& view, std::int64_t batch, std::int64_t i, std::int64_t j) const {
    return buffers[static_cast<std::size_t>(view.buffer)].as<float>()[static_cast<std::size_t>(
        view.offset + batch * view.strides[0] + i * view.strides[1] + j * view.strides[2])];
  }

  codegen::GemmLaunch launch;
  codegen::Program program;
  std::vector<HostTensor> buffers;
};

/// c of the launch; the tasks of each phase in order, or from the last to the first.
std::vector<float> run(const Setting& setting, const codegen::ProductCode& code, bool fixed_b,
                       bool backwards) {
  const auto product = make_product_launch(setting.launch, code, fixed_b);
  std::vector<HostTensor> buffers;
  for (const HostTensor& buffer : setting.buffers) buffers.push_back(buffer.clone());
  if (!setting.launch.accumulate) {
    const View& c = setting.launch.c;
    for (std::int64_t batch = 0; batch < c.shape[0]; ++batch) {
      for (std::int64_t i = 0; i < c.shape[1]; ++i)
        std::fill_n(buffers[2].as<float>().data() + c.offset + batch * c.strides[0] + i * c.strides[1],
                    c.shape[2], kNone);
    }
  }
  BufferPointers pointers;
  for (HostTensor& buffer : buffers) pointers.push_back(buffer.bytes().data());
  test::run_poisoned(*product, pointers, backwards);
  const std::span<const float> c = buffers[2].as<float>();
  return {c.begin(), c.end()};
}

void check(const Case& of, const codegen::ProductCode& code, unsigned seed) {
  const Setting setting(of, seed);
  CAPTURE(seed, of.m, of.n, of.k, of.a, of.b, of.bias, of.accumulate, of.batch, of.one_b, of.gap, of.fixed_b,
          code.block.columns);
  REQUIRE(takes_product(setting.program, setting.launch));
  const std::vector<float> c = run(setting, code, of.fixed_b, false);
  const std::span<const float> before = setting.buffers[2].as<float>();
  std::vector<bool> written(c.size());
  double worst = 0;
  for (std::int64_t batch = 0; batch < of.batch; ++batch) {
    for (std::int64_t i = 0; i < of.m; ++i) {
      for (std::int64_t j = 0; j < of.n; ++j) {
        const View& view = setting.launch.c;
        const auto place =
            static_cast<std::size_t>(view.offset + batch * view.strides[0] + i * view.strides[1] + j);
        written[place] = true;
        double sum = of.accumulate ? before[place] : 0.0;
        if (of.bias) sum += setting.buffers[3].as<float>()[static_cast<std::size_t>(3 + j)];
        for (std::int64_t k = 0; k < of.k; ++k)
          sum += double{setting.at(setting.launch.a, batch, i, k)} *
                 double{setting.at(setting.launch.b, batch, k, j)};
        const double error = std::abs(double{c[place]} - sum);
        worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
      }
    }
  }
  CHECK(worst < 2e-6 * std::sqrt(static_cast<double>(of.k)) + 1e-6);
  for (std::size_t i = 0; i < c.size(); ++i) {
    if (!written[i] && std::memcmp(&c[i], &before[i], sizeof(float)) != 0)
      FAIL("element " << i << " of c is not its own");
  }
  for (const bool fixed_b :
       {false, true}) {  // who packs b, and in which order what is computed, changes no bit
    const std::vector<float> again = run(setting, code, fixed_b, true);
    CHECK(std::memcmp(c.data(), again.data(), c.size() * sizeof(float)) == 0);
  }
}

std::vector<Case> cases() {
  constexpr Side rows = Side::rows, columns = Side::columns;
  std::vector<Case> all = {
      {16, 1, 1},
      {16, 64, 1, columns},
      {17, 3, 5, rows, columns},
      {97, 33, 385, rows, columns, true},
      {200, 100, 770, rows, rows, true, true},
      {64, 70, 1000, columns, rows},
      {65, 199, 400, columns, rows, false, true},
      {31, 65, 383, columns, columns, true},
      {700, 48, 64, rows, columns, true},
      {700, 50, 64, rows, rows},
      {1000, 15, 17, rows, columns},
      {400, 401, 30, rows, rows, true, false, 1, true, 5},
      {400, 300, 31, columns, columns, true, true, 1, true, 3},
      {49, 20, 16, rows, columns, true, false, 9},
      {49, 70, 20, columns, rows, false, false, 5, false, 1},
      {40, 65, 390, rows, rows, true, true, 3, false},
      {16, 10, 390, rows, columns, true, false, 1, true, 0, true},
      {65, 300, 70, rows, columns, true, false, 1, true, 0, true},
      {17, 130, 800, rows, rows, false, true, 5, true, 2, true},
      {20, 64, 30, rows, rows, false, false, 4, false, 0, true},
  };
  return all;
}

}  // namespace

TEST_CASE("products equal sums in double precision, whoever computes their tasks in whatever order") {
  std::vector<std::string> targets = {"", "x86-64"};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) targets.emplace_back("haswell");
  for (const std::string& target : targets) {
    CAPTURE(target);
    codegen::CpuJit jit({"", 1, target});
    for (const bool optimise : {true, false}) {
      if (!optimise && !target.empty()) continue;
      codegen::CpuJit quick({"", 1, target, optimise});
      unsigned seed = 1;
      for (const Case& of : cases()) check(of, optimise ? jit.product() : quick.product(), seed++);
    }
  }
}

TEST_CASE("a cut covers its extent in as many pieces as wanted, no two further apart than a unit") {
  for (const std::int64_t multiple : {1, 4, 6, 16}) {
    for (const std::int64_t extent : {1, 5, 6, 17, 96, 788, 832, 1000}) {
      for (const std::int64_t wanted : {1, 2, 3, 8, 9, 1000}) {
        CAPTURE(multiple, extent, wanted);
        const Cut cut(extent, wanted, multiple);
        REQUIRE(cut.pieces == std::min(wanted, (extent + multiple - 1) / multiple));
        std::int64_t end = 0, least = cut.size;
        for (std::int64_t piece = 0; piece < cut.pieces; ++piece) {
          REQUIRE(cut.begin(piece) == end);
          REQUIRE(cut.begin(piece) % multiple == 0);
          REQUIRE(cut.size_of(piece) > 0);
          REQUIRE(cut.size_of(piece) <= cut.size);
          if (piece + 1 < cut.pieces) least = std::min(least, cut.size_of(piece));
          end += cut.size_of(piece);
        }
        CHECK(end == extent);
        CHECK(cut.size - least <= multiple);
      }
    }
  }
}

TEST_CASE("the peak's multiply-adds are as many as it says") {
  std::vector<std::string> targets = {"", "x86-64"};
  for (const std::string& target : targets) {
    codegen::CpuJit jit({"", 1, target});
    const codegen::ProductCode& code = jit.product();
    const auto lanes = static_cast<std::size_t>(code.block.columns / 2),
               sums = static_cast<std::size_t>(2 * code.block.rows);
    std::vector<float> numbers(2 * lanes, 0.5F);
    code.peak(3, numbers.data());
    double total = 0;
    for (std::size_t i = 1; i <= sums; ++i) total += static_cast<double>(i) / 8 + 0.875;  // exact
    CHECK(double{numbers.front()} == total);
    CHECK(numbers[lanes - 1] == numbers.front());
    CHECK(numbers[lanes] == 0.5F);
    CHECK(code.peak_flops() == static_cast<double>(2 * sums * lanes));
  }
}

TEST_CASE("products of random extents and layouts") {
  codegen::CpuJit jit({});
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  const auto below = [&](std::int64_t bound) {
    return std::uniform_int_distribution<std::int64_t>(0, bound - 1)(random);
  };
  for (unsigned i = 0; i < 60; ++i) {
    const bool fixed_b = below(2) == 0;
    Case of{16 + below(300), 1 + below(200), 1 + below(900)};
    of.fixed_b = fixed_b;
    of.a = below(2) == 0 ? Side::rows : Side::columns;
    of.b = below(2) == 0 ? Side::rows : Side::columns;
    if (of.a == Side::columns) of.n += 64;
    of.bias = below(2) == 0, of.accumulate = below(2) == 0;
    of.batch = 1 + below(4), of.one_b = below(2) == 0, of.gap = below(3);
    check(of, jit.product(), seed + i);
  }
}

TEST_CASE("products that packing does not pay for, or of other types, are the library's") {
  Setting low({15, 64, 64}, 1), narrow({64, 63, 64, Side::columns}, 1), half({64, 64, 64}, 1),
      strided({64, 64, 64}, 1);
  CHECK_FALSE(takes_product(low.program, low.launch));
  CHECK_FALSE(takes_product(narrow.program, narrow.launch));
  half.program.buffers[0].type.dtype = ir::DType::bf16;
  CHECK_FALSE(takes_product(half.program, half.launch));
  strided.launch.b.strides = {0, 128, 2};
  CHECK_FALSE(takes_product(strided.program, strided.launch));
}

}  // namespace rewire::runtime
