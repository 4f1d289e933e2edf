// The vector functions: relative error over their whole range, and what they give at infinity, NaN, zero and
// in the denormals.
#include <cmath>
#include <limits>
#include <random>

#include "codegen/llvm/jit.h"
#include "ir/opcodes.h"
#include "tests/support/catch.h"
#include "tests/support/tile_builder.h"

namespace rewire::test {
namespace {

using ir::DType;
using ir::Opcode;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

/// Kernels ask for 64-byte aligned arguments.
template <class T>
class Aligned {
 public:
  explicit Aligned(const std::vector<T>& values)
      : storage_(values.size() + 64 / sizeof(T)), size_(values.size()) {
    std::copy(values.begin(), values.end(), data());
  }
  T* data() {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    return storage_.data() + (64 - address % 64) % 64 / sizeof(T);
  }
  std::vector<T> values() { return {data(), data() + size_}; }

 private:
  std::vector<T> storage_;
  std::size_t size_;
};

/// f(x…) for every element, computed by a generated kernel in T.
template <class T>
std::vector<T> evaluate(Opcode code, const std::vector<std::vector<T>>& operands, const std::string& cpu) {
  const DType dtype = sizeof(T) == 4 ? DType::f32 : DType::f64;
  const std::size_t count = operands[0].size();
  TileBuilder t("f");
  const auto c = t.lane("c", static_cast<std::int64_t>(count));
  std::vector<TileBuilder::Value> x;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    x.push_back(t.load(t.input("x" + std::to_string(i), dtype), {{c, 1}}, 0, dtype));
  }
  t.store(t.output("y", dtype), t.op(code, x), {{c, 1}});
  const auto kernel = t.finish();
  codegen::CpuJit jit({"", 1, cpu});
  std::vector<Aligned<T>> memory(operands.begin(), operands.end());
  memory.emplace_back(std::vector<T>(count));
  std::vector<void*> arguments;
  for (Aligned<T>& each : memory) arguments.push_back(each.data());
  alignas(64) char scratch[64];
  const codegen::CompiledKernel compiled = jit.compile({&kernel, 1})[0];
  REQUIRE(compiled.scratch_bytes <= 64);
  compiled.function(arguments.data(), 0, 1, scratch);
  return memory.back().values();
}

struct Function {
  Opcode code;
  double (*reference)(double);
  double low, high;
  double relative;  // bound on the relative error in f32
};

const Function kFunctions[] = {
    {Opcode::exp, [](double x) { return std::exp(x); }, -87, 88.7, 2e-7},
    {Opcode::log, [](double x) { return std::log(x); }, 1e-37, 10, 2e-7},
    {Opcode::log, [](double x) { return std::log(x); }, 0.9, 1.1, 2e-7},
    {Opcode::log, [](double x) { return std::log(x); }, 1, 3e38, 2e-7},
    {Opcode::erf, [](double x) { return std::erf(x); }, -5, 5, 4e-7},
    {Opcode::erf, [](double x) { return std::erf(x); }, -1e-3, 1e-3, 4e-7},
    {Opcode::tanh, [](double x) { return std::tanh(x); }, -12, 12, 4e-7},
    {Opcode::tanh, [](double x) { return std::tanh(x); }, -1e-3, 1e-3, 4e-7},
    {Opcode::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -87, 40, 4e-7},
    {Opcode::sqrt, [](double x) { return std::sqrt(x); }, 0, 1e30, 6e-8},
    {Opcode::rsqrt, [](double x) { return 1 / std::sqrt(x); }, 1e-30, 1e3, 1.2e-7},
};

TEST_CASE("functions of f32 are right to a few units in the last place") {
  for (const Function& f : kFunctions) {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> uniform(static_cast<float>(f.low), static_cast<float>(f.high));
    std::vector<float> x(20003);
    for (float& value : x) value = uniform(random);
    for (const char* cpu : {"", "haswell", "x86-64-v2"}) {
      const std::vector<float> y = evaluate<float>(f.code, {x}, cpu);
      double worst = 0, where = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double expected = f.reference(x[i]);
        if (std::abs(expected) < 1.2e-38) continue;
        const double error = std::abs(y[i] / expected - 1);
        if (!(error <= worst)) worst = error, where = x[i];
      }
      INFO(ir::opcode_name(f.code) << " on " << cpu << ", worst at " << where);
      CHECK(worst <= f.relative);
    }
  }
}

TEST_CASE("sine and cosine are right to 2e-7 also far from zero") {
  std::mt19937 random(7);
  for (double scale : {1.0, 100.0, 1e6, 1e12}) {
    std::uniform_real_distribution<float> uniform(static_cast<float>(-scale), static_cast<float>(scale));
    std::vector<float> x(5001);
    for (float& value : x) value = uniform(random);
    for (const char* cpu : {"", "haswell"}) {
      const std::vector<float> s = evaluate<float>(Opcode::sin, {x}, cpu);
      const std::vector<float> c = evaluate<float>(Opcode::cos, {x}, cpu);
      double worst = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        worst = std::max(
            {worst, std::abs(s[i] - std::sin(double{x[i]})), std::abs(c[i] - std::cos(double{x[i]}))});
      }
      CAPTURE(scale, cpu);
      CHECK(worst <= 2e-7);
    }
  }
}

TEST_CASE("pow is right to 2e-7 wherever the result is finite") {
  std::mt19937 random(7);
  std::vector<float> a(20003), b(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = std::exp(std::uniform_real_distribution<float>(-20, 20)(random));
    b[i] = std::uniform_real_distribution<float>(-4, 4)(random);
  }
  const std::vector<float> y = evaluate<float>(Opcode::pow, {a, b}, "");
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, std::abs(y[i] / std::pow(double{a[i]}, double{b[i]}) - 1));
  CHECK(worst <= 2e-7);
}

TEST_CASE("functions of f64 are right to 1e-14") {
  for (const Function& f : kFunctions) {
    std::mt19937 random(7);
    std::uniform_real_distribution<double> uniform(f.low, f.high);
    std::vector<double> x(4001);
    for (double& value : x) value = uniform(random);
    const std::vector<double> y = evaluate<double>(f.code, {x}, "");
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      worst = std::max(worst, std::abs(y[i] / f.reference(x[i]) - 1));
    INFO(ir::opcode_name(f.code));
    CHECK(worst <= 1e-14);
  }
}

struct Special {
  Opcode code;
  double x, expected;
};

TEST_CASE("infinities, NaN, zero and denormals come out as IEEE 754 and the C library have them") {
  const double tiny = 1e-42;
  const std::vector<Special> specials = {
      {Opcode::exp, kInfinity, kInfinity},
      {Opcode::exp, -kInfinity, 0},
      {Opcode::exp, kNan, kNan},
      {Opcode::exp, 0, 1},
      {Opcode::exp, 100, kInfinity},
      {Opcode::exp, -200, 0},
      {Opcode::exp, -95, std::exp(-95.0)},
      {Opcode::exp, 3e38, kInfinity},
      {Opcode::exp, -3e38, 0},
      {Opcode::log, kInfinity, kInfinity},
      {Opcode::log, 0, -kInfinity},
      {Opcode::log, -1, kNan},
      {Opcode::log, kNan, kNan},
      {Opcode::log, 1, 0},
      {Opcode::log, -kInfinity, kNan},
      {Opcode::log, tiny, std::log(static_cast<double>(static_cast<float>(tiny)))},
      {Opcode::erf, kInfinity, 1},
      {Opcode::erf, -kInfinity, -1},
      {Opcode::erf, kNan, kNan},
      {Opcode::erf, 0, 0},
      {Opcode::erf, 30, 1},
      {Opcode::tanh, kInfinity, 1},
      {Opcode::tanh, -kInfinity, -1},
      {Opcode::tanh, kNan, kNan},
      {Opcode::tanh, -50, -1},
      {Opcode::sigmoid, kInfinity, 1},
      {Opcode::sigmoid, -kInfinity, 0},
      {Opcode::sigmoid, kNan, kNan},
      {Opcode::sin, kNan, kNan},
      {Opcode::sin, kInfinity, kNan},
      {Opcode::cos, -kInfinity, kNan},
      {Opcode::sin, 0, 0},
      {Opcode::cos, 0, 1},
      {Opcode::sqrt, -1, kNan},
      {Opcode::sqrt, kInfinity, kInfinity},
      {Opcode::rsqrt, 0, kInfinity},
      {Opcode::rsqrt, kInfinity, 0},
      {Opcode::floor, -0.5, -1},
      {Opcode::floor, kInfinity, kInfinity},
      {Opcode::neg, kNan, kNan},
      {Opcode::abs, -kInfinity, kInfinity},
  };
  for (const char* cpu : {"", "haswell"}) {
    for (const Special& special : specials) {
      for (std::size_t size : {std::size_t{1}, std::size_t{19}}) {
        const std::vector<float> x(size, static_cast<float>(special.x));
        const float y = evaluate<float>(special.code, {x}, cpu).back();
        INFO(ir::opcode_name(special.code) << "(" << special.x << ") on '" << cpu << "' gives " << y);
        if (std::isnan(special.expected)) {
          CHECK(std::isnan(y));
        } else if (std::isinf(special.expected) || special.expected == 0) {
          CHECK(y == special.expected);
        } else {
          CHECK(std::abs(y - special.expected) <= 4e-7 * std::abs(special.expected) + 1e-45);
        }
      }
    }
  }
}

TEST_CASE("a power has the C library's value at its corners") {
  const std::vector<float> bases = {
      0, 1, -1, 2, -2, 0.5F, static_cast<float>(kInfinity), static_cast<float>(kNan)};
  const std::vector<float> exponents = {0, 1, -1, 2, 3, -3, 0.5F, 60};
  for (float base : bases) {
    for (float exponent : exponents) {
      const float y = evaluate<float>(Opcode::pow, {{base}, {exponent}}, "").back();
      const double expected = std::pow(static_cast<double>(base), static_cast<double>(exponent));
      CAPTURE(base, exponent, y, expected);
      CHECK((std::isnan(expected) ? std::isnan(y) : y == Approx(expected)));
    }
  }
}

TEST_CASE("a NaN anywhere reaches sums, maxima and elementwise maxima") {
  for (std::int64_t size : {1, 16, 40}) {
    for (std::int64_t where : {std::int64_t{0}, size / 2, size - 1}) {
      TileBuilder t("nan");
      const auto c = t.lane("c", size);
      const auto x = t.load(t.input("x"), {{c, 1}});
      t.store(t.output("max"), t.max(x, {c}), {});
      t.store(t.output("sum"), t.sum(x, {c}), {});
      const auto z = t.constant(0);
      t.store(t.output("larger"), t.sum(t.op(Opcode::maximum, {x, z}), {c}), {});
      t.store(t.output("smaller"), t.sum(t.op(Opcode::minimum, {z, x}), {c}), {});
      const auto kernel = t.finish();
      alignas(64) float x_data[64] = {};
      x_data[where] = static_cast<float>(kNan);
      alignas(64) float results[4][16] = {};
      void* arguments[] = {x_data, results[0], results[1], results[2], results[3]};
      codegen::CpuJit jit({});
      alignas(64) char scratch[4096];
      const auto compiled = jit.compile({&kernel, 1})[0];
      REQUIRE(compiled.scratch_bytes <= 4096);
      compiled.function(arguments, 0, 1, scratch);
      CAPTURE(size, where);
      for (const auto& result : results) CHECK(std::isnan(result[0]));
    }
  }
}

}  // namespace
}  // namespace rewire::test
