// A row kernel with more arrays than a warp's threads have registers for: a join of many streams.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/opcodes.h"
#include "tests/support/tile_builder.h"

namespace rewire::test {

/// y_i = x_i + a_i[row] sum(x_i x_0), for `streams` streams of rows, every other one in bf16. `parts` > 0: a
/// block walks a part's rows, and writes the sum of each column of x_0.
inline codegen::tile::Kernel many_streams(std::int64_t rows, std::int64_t lanes, int streams,
                                          std::int64_t parts = 0) {
  TileBuilder t("many_streams");
  const auto r = t.row("r", rows);
  const auto c = t.lane("c", lanes);
  if (parts > 0) t.partitions(parts);
  const TileBuilder::Strides row = {{r, lanes}, {c, 1}};
  std::vector<std::int32_t> xs, ys, weights;
  for (int i = 0; i < streams; ++i) {
    const std::string number = std::to_string(i);
    const ir::DType dtype = i % 2 == 0 ? ir::DType::f32 : ir::DType::bf16;
    xs.push_back(t.input("x" + number, dtype));
    weights.push_back(t.input("a" + number));
    ys.push_back(t.output("y" + number, dtype));
  }
  const std::int32_t partials = parts > 0 ? t.output("partials") : -1;
  TileBuilder::Value columns, last;
  if (parts > 0) columns = t.carry(t.constant(0, {c}));
  t.body();
  std::vector<TileBuilder::Value> read, sums;
  for (const std::int32_t x : xs) read.push_back(t.load(x, row));
  for (const TileBuilder::Value x : read) sums.push_back(t.sum(t.op(ir::Opcode::mul, {x, read[0]}), {c}));
  for (std::size_t i = 0; i < read.size(); ++i) {
    const auto weighted = t.op(ir::Opcode::mul, {t.load(weights[i], {{r, 1}}), sums[i]});
    t.store(ys[i], t.op(ir::Opcode::add, {read[i], weighted}), row);
  }
  if (parts == 0) return t.finish();
  last = t.carry_next(columns, t.op(ir::Opcode::add, {columns, read[0]}));
  t.epilogue();
  t.store(partials, last, {{c, 1}}, 0, lanes);
  return t.finish();
}

}  // namespace rewire::test
