// Attention and its gradient as a module. If there are as many queries as keys, the heads are windows of one
// projection, as in a transformer.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ir/builder.h"
#include "ir/module.h"
#include "ir/opcodes.h"
#include "ir/verify.h"

namespace rewire::testing {

struct AttentionHeads {
  std::int64_t batch = 1, heads = 1, queries = 1, keys = 1, width = 8;
};

inline std::array<ir::Value, 3> attention_operands(ir::Builder& b, const AttentionHeads& s, ir::DType dtype) {
  const ir::Shape queries = {s.batch, s.heads, s.queries, s.width};
  const ir::Shape keys = {s.batch, s.heads, s.keys, s.width};
  if (s.queries != s.keys) {
    const ir::Value q = b.argument("q", {dtype, queries}), k = b.argument("k", {dtype, keys});
    return {q, k, b.argument("v", {dtype, keys})};
  }
  const ir::Value projected = b.argument("qkv", {dtype, {s.batch, s.queries, 3, s.heads, s.width}});
  const ir::Value parts = b.transpose(projected, {2, 0, 3, 1, 4});
  std::array<ir::Value, 3> qkv;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto at = static_cast<std::int64_t>(i);
    qkv[i] = b.reshape(b.slice(parts, 0, at, at + 1), queries);
  }
  return qkv;
}

/// Function "main" with the results o, l, dq, dk, dv; its last argument is the gradient of o.
inline ir::Module attention_module(const AttentionHeads& s, double scale, ir::DType dtype) {
  ir::Module module;
  module.name = "attention";
  ir::Function& main = module.functions.emplace_back();
  main.name = "main";
  ir::Builder b(module, main);
  const std::array<ir::Value, 3> qkv = attention_operands(b, s, dtype);
  const ir::Value given = b.argument("g", {dtype, {s.batch, s.queries, s.heads, s.width}});
  const std::vector<ir::Value> forward = b.emit_all(ir::Opcode::attention, qkv, {{"scale", scale}});
  const ir::Value d_output = b.transpose(given, {0, 2, 1, 3});
  const ir::Value reads[] = {qkv[0], qkv[1], qkv[2], forward[0], forward[1], d_output};
  const std::vector<ir::Value> gradient = b.emit_all(ir::Opcode::attention_grad, reads, {{"scale", scale}});
  b.result("o", b.reshape(b.transpose(forward[0], {0, 2, 1, 3}), {s.batch, s.queries, s.heads * s.width}));
  b.result("l", forward[1]);
  b.result("dq", gradient[0]);
  b.result("dk", gradient[1]);
  b.result("dv", gradient[2]);
  ir::verify(module);
  return module;
}

}  // namespace rewire::testing
