// Every pointwise op of the table against the interpreter, at sizes around the vector width.
#include <fmt/format.h>

#include "codegen/tile/walk.h"
#include "ir/opcodes.h"
#include "ir/ops/op_info.h"
#include "tests/support/catch.h"
#include "tests/support/tile_builder.h"
#include "tests/support/tile_check.h"

namespace rewire::test {
namespace {

using ir::DType;
using ir::Opcode;

constexpr std::int64_t kSizes[] = {1, 3, 15, 16, 17, 33, 100, 192, 384, 1000};

/// out[4 rows, size] = op(in0, in1 …) in one dtype, two partitions.
codegen::tile::Kernel pointwise_kernel(Opcode code, const std::string& direction, DType dtype,
                                       std::int64_t size) {
  const ir::OpInfo& info = ir::op_info(code);
  TileBuilder b(fmt::format("{}_{}", info.name, size));
  const auto r = b.row("r", 4);
  const auto c = b.lane("c", size);
  b.partitions(2);
  b.body();
  const bool logical =
      code == Opcode::logical_and || code == Opcode::logical_or || code == Opcode::logical_not;
  std::vector<TileBuilder::Value> operands;
  for (int i = 0; i < info.min_operands; ++i) {
    const bool truth = logical || (code == Opcode::select && i == 0);
    const DType type = truth ? DType::i1 : dtype;
    operands.push_back(b.load(b.input(fmt::format("in{}", i), type), {{r, size}, {c, 1}}, 0, type));
  }
  const auto result = b.op(code, operands, direction);
  const DType result_type = b.kernel().values.back().dtype;
  b.store(b.output("out", result_type), result, {{r, size}, {c, 1}});
  return b.finish();
}

std::vector<std::string> directions(Opcode code) {
  if (code == Opcode::compare) return {"lt", "le", "gt", "ge", "eq", "ne"};
  return {""};
}

/// Where an op is defined, and where f32 rounding of the operands is harmless.
std::vector<TileInput> domain(Opcode code) {
  switch (code) {
    case Opcode::exp:
      return {{-20, 5}};
    case Opcode::log:
    case Opcode::sqrt:
    case Opcode::rsqrt:
      return {{0.01, 30}};
    case Opcode::sin:
    case Opcode::cos:
      return {{-30, 30}};
    case Opcode::tanh:
    case Opcode::sigmoid:
      return {{-12, 12}};
    case Opcode::erf:
      return {{-5, 5}};
    case Opcode::div:
      return {{-2, 2}, {0.5, 3}};
    case Opcode::pow:
      return {{0.1, 4}, {-3, 3}};
    default:
      return {{-3, 3}, {-3, 3}, {-3, 3}};
  }
}

TEST_CASE("every pointwise op computes what the op table says, at sizes around the vector width") {
  for (const ir::OpInfo& info : ir::op_table()) {
    if (info.op_class != ir::OpClass::pointwise || info.code == Opcode::cast) continue;
    for (const std::string& direction : directions(info.code)) {
      for (std::int64_t size : kSizes) {
        const auto kernel = pointwise_kernel(info.code, direction, DType::f32, size);
        TileCheck check;
        check.inputs = domain(info.code);
        check.tolerance = info.tolerance == 0 ? 1e-7 : info.tolerance;
        check.seed = static_cast<std::uint64_t>(size);
        INFO(codegen::tile::print(kernel));
        CHECK(check_kernel(kernel, check) == "");
      }
    }
  }
}

}  // namespace
}  // namespace rewire::test
