#include "runtime/measure/block_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/autodiff/autodiff.h"
#include "ir/builder.h"
#include "programs/sums.h"

namespace rewire::runtime {
namespace {

using ir::Opcode;
using ir::Value;

bool contains(const std::vector<Value>& values, Value value) {
  return std::ranges::find(values, value) != values.end();
}

/// Marks the ops of forward that the section needs: walks back from its end, not beyond its beginning.
std::vector<bool> needed_ops(const ir::Function& forward, const Section& section) {
  const std::vector<std::int32_t> definitions = forward.definitions();
  std::vector<bool> needed(forward.body.size());
  std::vector<Value> pending = {section.to};
  while (!pending.empty()) {
    const Value next = pending.back();
    pending.pop_back();
    const std::int32_t at = definitions[static_cast<std::size_t>(next.id)];
    if (contains(section.from, next) || at < 0 || needed[static_cast<std::size_t>(at)]) continue;
    needed[static_cast<std::size_t>(at)] = true;
    const ir::Op& op = forward.body[static_cast<std::size_t>(at)];
    pending.insert(pending.end(), op.operands.begin(), op.operands.end());
  }
  return needed;
}

bool reads_an_argument(const ir::Function& forward, const std::vector<bool>& needed, const Section& section) {
  for (std::size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i]) continue;
    for (const Value operand : forward.body[i].operands) {
      for (const ir::Argument& argument : forward.arguments) {
        if (operand == argument.value && !contains(section.from, operand)) return true;
      }
    }
  }
  return false;
}

}  // namespace

Section block_section(const Block& block, std::size_t index) {
  return {fmt::format("block.{}", index), {block.entrance}, block.exit, fmt::format("stream.{}", index)};
}

Section join_section(const ir::Function& forward, const Block& block, std::size_t index, std::size_t join) {
  const ir::Join& facts = block.joins.at(join);
  return {fmt::format("join.{}.{}", index, join),
          {facts.input, facts.stream},
          forward.body[block.join_ops.at(join)].results.at(0),
          fmt::format("input.{}.{}", index, join)};
}

void add_probe_program(ir::Module& module, const std::vector<Block>& blocks) {
  ir::Function probe = module.function("forward");
  probe.name = "probe";
  probe.results.clear();
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    probe.results.push_back({fmt::format("stream.{}", b), blocks[b].entrance});
    for (std::size_t j = 0; j < blocks[b].joins.size(); ++j)
      probe.results.push_back({fmt::format("input.{}.{}", b, j), blocks[b].joins[j].input});
    const std::vector<std::size_t> attention = programs::attention_ops(probe, blocks[b]);
    for (std::size_t a = 0; a < attention.size(); ++a) {
      const ir::Op& op = probe.body[attention[a]];
      probe.results.push_back({fmt::format("query.{}.{}", b, a), op.operands.at(0)});
      probe.results.push_back({fmt::format("key.{}.{}", b, a), op.operands.at(1)});
    }
  }
  module.functions.push_back(std::move(probe));
}

bool add_jacobian_program(ir::Module& module, const Section& section) {
  const ir::Function& forward = module.function("forward");
  const std::vector<bool> needed = needed_ops(forward, section);
  if (reads_an_argument(forward, needed, section)) return false;

  ir::Function function;
  function.name = section.name;
  ir::Builder b(module, function);
  const Value begin = b.argument("at", forward.type(section.from.front()));
  const Value cotangent = b.argument("cotangent", forward.type(section.to));
  std::vector<Value> renamed(forward.types.size());
  const auto renaming = [&](Value value) -> Value& { return renamed.at(static_cast<std::size_t>(value.id)); };
  for (const Value from : section.from) renaming(from) = begin;
  for (std::size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i]) continue;
    ir::Op op = forward.body[i];
    for (Value& operand : op.operands) operand = renaming(operand);
    for (Value& result : op.results) {
      const Value fresh = function.new_value(forward.type(result));
      renaming(result) = fresh;
      result = fresh;
    }
    function.body.push_back(std::move(op));
  }
  b.set_position(function.body.size());
  const Value loss = programs::sum_all(b, b.mul(renaming(section.to), cotangent));
  const Value wrt[] = {begin};
  b.result("row", ir::differentiate(b, loss, wrt).at(0));
  module.functions.push_back(std::move(function));
  return true;
}

}  // namespace rewire::runtime
