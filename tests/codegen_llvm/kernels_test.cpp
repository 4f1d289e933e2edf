// Characteristic kernels against the interpreter.
#include <fmt/format.h>

#include "codegen/tile/walk.h"
#include "tests/support/catch.h"
#include "tests/support/tile_builder.h"
#include "tests/support/tile_check.h"

namespace rewire::test {
namespace {

using ir::DType;
using ir::Opcode;

void require_agreement(const codegen::tile::Kernel& kernel, TileCheck check = {}) {
  for (const char* cpu : {"", "haswell"}) {
    check.cpu = cpu;
    INFO("cpu '" << cpu << "'\n" << codegen::tile::print(kernel));
    CHECK(check_kernel(kernel, check) == "");
  }
}

/// (x - mean) / sqrt(var + eps) * w + b over rows of `size`.
codegen::tile::Kernel layer_norm(std::int64_t rows, std::int64_t size, std::int64_t partitions) {
  TileBuilder t("layer_norm");
  const auto r = t.row("r", rows);
  const auto c = t.lane("c", size);
  t.partitions(partitions);
  const auto n = static_cast<double>(size);
  const auto w = t.load(t.input("weight"), {{c, 1}});
  const auto b = t.load(t.input("bias"), {{c, 1}});
  t.body();
  const auto x = t.load(t.input("x"), {{r, size}, {c, 1}});
  const auto mean = t.op(Opcode::mul, {t.sum(x, {c}), t.constant(1 / n)});
  const auto d = t.op(Opcode::sub, {x, mean});
  const auto var = t.op(Opcode::mul, {t.sum(t.op(Opcode::mul, {d, d}), {c}), t.constant(1 / n)});
  const auto rstd = t.op(Opcode::rsqrt, {t.op(Opcode::add, {var, t.constant(1e-6)})});
  const auto y = t.op(Opcode::add, {t.op(Opcode::mul, {t.op(Opcode::mul, {d, rstd}), w}), b});
  t.store(t.output("y"), y, {{r, size}, {c, 1}});
  t.store(t.output("rstd"), rstd, {{r, 1}});
  return t.finish();
}

TEST_CASE("a layer norm agrees at any row length and partition") {
  for (std::int64_t size : {1, 3, 15, 16, 17, 33, 100, 192, 384, 1000}) {
    for (std::int64_t partitions : {1, 3, 5}) require_agreement(layer_norm(5, size, partitions), {2e-5});
  }
}

/// Backward with the gradients of weight and bias as column partials: the example of tile.h.
codegen::tile::Kernel layer_norm_backward(std::int64_t rows, std::int64_t size, std::int64_t partitions) {
  TileBuilder t("layer_norm_backward");
  const auto r = t.row("r", rows);
  const auto c = t.lane("c", size);
  t.partitions(partitions);
  const auto n = t.constant(1 / static_cast<double>(size));
  const auto w = t.load(t.input("weight"), {{c, 1}});
  const auto zero = t.constant(0, {c});
  const auto aw = t.carry(zero);
  const auto ab = t.carry(zero);
  t.body();
  const auto g = t.load(t.input("g"), {{r, size}, {c, 1}});
  const auto x = t.load(t.input("x"), {{r, size}, {c, 1}});
  const auto mean = t.load(t.input("mean"), {{r, 1}});
  const auto rstd = t.load(t.input("rstd"), {{r, 1}});
  const auto xh = t.op(Opcode::mul, {t.op(Opcode::sub, {x, mean}), rstd});
  const auto gw = t.op(Opcode::mul, {g, w});
  const auto m1 = t.op(Opcode::mul, {t.sum(gw, {c}), n});
  const auto m2 = t.op(Opcode::mul, {t.sum(t.op(Opcode::mul, {gw, xh}), {c}), n});
  const auto inner = t.op(Opcode::sub, {t.op(Opcode::sub, {gw, m1}), t.op(Opcode::mul, {xh, m2})});
  t.store(t.output("dx"), t.op(Opcode::mul, {inner, rstd}), {{r, size}, {c, 1}});
  const auto last_w = t.carry_next(aw, t.op(Opcode::add, {aw, t.op(Opcode::mul, {g, xh})}));
  const auto last_b = t.carry_next(ab, t.op(Opcode::add, {ab, g}));
  t.epilogue();
  t.store(t.output("partial_w"), last_w, {{c, 1}}, 0, size);
  t.store(t.output("partial_b"), last_b, {{c, 1}}, 0, size);
  return t.finish();
}

TEST_CASE("a layer norm's backward leaves its column partials") {
  for (std::int64_t size : {1, 17, 64, 192, 384, 1000}) {
    for (std::int64_t partitions : {1, 4}) require_agreement(layer_norm_backward(13, size, partitions), {1e-5});
  }
}

}  // namespace
}  // namespace rewire::test
