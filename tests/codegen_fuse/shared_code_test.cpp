// Which kernels that differ in numbers become one code, which numbers stay in the text, and that nothing
// else is computed.
#include "codegen/shared_code.h"

#include <cmath>
#include <set>

#include "codegen/program.h"
#include "ir/opcodes.h"
#include "tests/support/catch.h"
#include "tests/support/tile_builder.h"
#include "tests/support/tile_interpreter.h"

namespace rewire::shared_code {
namespace {

using codegen::BufferKind;
using codegen::KernelLaunch;
using codegen::Program;
using ir::Opcode;

constexpr std::int64_t kRows = 5, kLanes = 3;
constexpr std::uint64_t kStream = 0x9e3779b97f4a7c15;

/// y = (x ^ exponent) * factor + 1 + a draw of `stream`, row by row.
codegen::tile::Kernel kernel(const std::string& name, double factor, std::uint64_t stream = kStream,
                             double exponent = 2) {
  test::TileBuilder t(name);
  const auto r = t.row("r", kRows);
  const auto c = t.lane("c", kLanes);
  const auto x = t.input("x"), seed = t.argument("seed", codegen::tile::ArgumentUse::read, ir::DType::i64);
  const auto y = t.output("y");
  const auto f = t.constant(factor), one = t.constant(1), e = t.constant(exponent);
  const auto s = t.load(seed, {}, 0, ir::DType::i64), n = t.load(seed, {}, 1, ir::DType::i64);
  t.body();
  const auto row = t.op(Opcode::pow, {t.load(x, {{r, kLanes}, {c, 1}}), e});
  const auto scaled = t.op(Opcode::add, {t.op(Opcode::mul, {row, f}), one});
  const auto draw = t.random(false, s, n, stream, {{r, kLanes}, {c, 1}});
  t.store(y, t.op(Opcode::add, {scaled, draw}), {{r, kLanes}, {c, 1}});
  return t.finish();
}

/// y = value: nothing but the number is stored.
codegen::tile::Kernel filling(const std::string& name, double value) {
  test::TileBuilder t(name);
  const auto c = t.lane("c", kLanes);
  t.store(t.output("y"), t.constant(value, {c}), {{c, 1}});
  return t.finish();
}

Program program(std::vector<codegen::tile::Kernel> kernels) {
  Program result;
  for (codegen::tile::Kernel& k : kernels) {
    KernelLaunch launch{std::move(k), {}};
    for (const codegen::tile::Argument& argument : launch.kernel.arguments) {
      launch.buffers.push_back(static_cast<std::int32_t>(result.buffers.size()));
      result.buffers.push_back(
          {argument.name, BufferKind::temporary, {argument.dtype, {kRows * kLanes}}, {}});
    }
    result.launches.emplace_back(std::move(launch));
  }
  return result;
}

const KernelLaunch& at(const Program& p, std::size_t i) {
  return std::get<KernelLaunch>(p.launches[i]);
}

std::size_t structures(const Program& p) {
  std::set<std::string> known;
  for (std::size_t i = 0; i < p.launches.size(); ++i) known.insert(codegen::tile::structure(at(p, i).kernel));
  return known.size();
}

/// What launch number `i` writes, from fixed numbers in what it reads.
test::TileMemory output(const Program& p, std::size_t i) {
  const KernelLaunch& launch = at(p, i);
  std::vector<test::TileMemory> memory;
  for (const std::int32_t id : launch.buffers) {
    const codegen::Buffer& buffer = p.buffers[static_cast<std::size_t>(id)];
    const auto count = static_cast<std::size_t>(ir::element_count(buffer.type.shape));
    test::TileMemory values = buffer.values;
    if (buffer.kind != BufferKind::constant) {
      values.resize(count);
      for (std::size_t k = 0; k < count; ++k)
        values[k] =
            buffer.type.dtype == ir::DType::i64 ? static_cast<double>(7 + k) : 0.25 * static_cast<double>(k);
    }
    REQUIRE(values.size() == count);
    memory.push_back(std::move(values));
  }
  test::interpret(launch.kernel, memory);
  for (std::size_t k = 0; k < launch.kernel.arguments.size(); ++k) {
    if (launch.kernel.arguments[k].use == codegen::tile::ArgumentUse::write) return memory[k];
  }
  FAIL("nothing is written");
  return {};
}

/// Shares code, and holds every launch to what it wrote before.
Program shared(std::vector<codegen::tile::Kernel> kernels) {
  Program p = program(std::move(kernels));
  std::vector<test::TileMemory> before;
  for (std::size_t i = 0; i < p.launches.size(); ++i) before.push_back(output(p, i));
  codegen::share_code(p);
  for (std::size_t i = 0; i < p.launches.size(); ++i) {
    INFO("launch " << i << ":\n" << codegen::tile::print(at(p, i).kernel));
    CHECK(output(p, i) == before[i]);
  }
  return p;
}

TEST_CASE("kernels that differ in a factor share code: the factor is data, what they agree on stays text") {
  const Program p = shared({kernel("a", 0.5), kernel("b", 0.75), kernel("c", 0.5)});
  CHECK(structures(p) == 1);
  for (std::size_t i = 0; i < 3; ++i) {
    REQUIRE(at(p, i).buffers.size() == 4);
    const codegen::Buffer& numbers = p.buffers[static_cast<std::size_t>(at(p, i).buffers[3])];
    CHECK(numbers.kind == BufferKind::constant);
    CHECK(numbers.type == ir::TensorType{ir::DType::f32, {1}});
    CHECK(numbers.values == std::vector<double>{i == 1 ? 0.75 : 0.5});
  }
  CHECK_THAT(codegen::tile::print(at(p, 1).kernel), REWIRE_CATCH_CONTAINS("constant 1\n"));
}

TEST_CASE("kernels that draw from different streams share code, all 64 bits of them") {
  const Program p = shared({kernel("a", 0.5, kStream), kernel("b", 0.5, kStream + 1),
                            kernel("c", 0.5, kStream ^ (std::uint64_t{1} << 63)), kernel("d", 0.25, 3)});
  CHECK(structures(p) == 1);
  CHECK(output(p, 0) != output(p, 1));
  CHECK(output(p, 0) != output(p, 2));
  // A factor and the two halves of a stream.
  CHECK(p.buffers[static_cast<std::size_t>(at(p, 3).buffers[3])].type == ir::TensorType{ir::DType::f32, {1}});
  CHECK(p.buffers[static_cast<std::size_t>(at(p, 3).buffers[4])].values == std::vector<double>{3, 0});
}

TEST_CASE("kernels that agree in every number, and a kernel alone, stay as they are") {
  for (const std::size_t count : {1, 3}) {
    std::vector<codegen::tile::Kernel> kernels(count, kernel("a", 0.5));
    const std::string before = codegen::tile::print(kernels[0]);
    const Program p = shared(kernels);
    CHECK(codegen::tile::print(at(p, 0).kernel) == before);
    CHECK(p.buffers.size() == 3 * count);
  }
}

TEST_CASE("numbers that a printer looks at keep kernels apart: exponents, and what is stored as it is") {
  const Program powers = shared({kernel("a", 0.5, kStream, 2), kernel("b", 0.5, kStream, 3)});
  CHECK(structures(powers) == 2);
  CHECK(at(powers, 0).buffers.size() == 3);
  // Two of each exponent: two codes, whose factors are data.
  const Program pairs = shared({kernel("a", 0.5, kStream, 2), kernel("b", 0.25, kStream, 2),
                                kernel("c", 0.5, kStream, 3), kernel("d", 0.25, kStream, 3)});
  CHECK(structures(pairs) == 2);
  CHECK(structures(shared({filling("a", 0), filling("b", 1)})) == 2);
}

TEST_CASE("zeros of two signs are two numbers") {
  const Program p = shared({kernel("a", 0.0), kernel("b", -0.0)});
  CHECK(structures(p) == 1);
  CHECK(std::signbit(p.buffers[static_cast<std::size_t>(at(p, 1).buffers[3])].values[0]));
}

}  // namespace
}  // namespace rewire::shared_code
