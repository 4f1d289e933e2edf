// Barriers of a block kernel; see blocks_order.h.
#include "codegen/cuda/blocks_order.h"

#include <algorithm>

#include "codegen/tile/walk.h"

namespace rewire::codegen::cuda {

using tile::Node;
using tile::TileValue;

void BlockOrder::finish_copies() {
  if (copying_) lines_.line("finish_copies();");
  copying_ = false;
}

void BlockOrder::barrier() {
  finish_copies();
  lines_.line("__syncthreads();");
  read_.clear();
  written_.clear();
  touched_.clear();
}

void BlockOrder::before_all() {
  if (!read_.empty() || !written_.empty() || !touched_.empty()) barrier();
}

void BlockOrder::before(const BlockStep& step) {
  std::vector<Span> reads, writes;
  std::set<std::int32_t> touches;
  for (const Node* node : step.nodes) {
    for (TileValue operand : tile::operands_of(*node)) add_reads(operand, reads);
    const TileValue result = tile::result_of(*node);
    if (result && plan_.value(result).home == BlockHome::shared) writes.push_back(span(result));
    const tile::Access* access = tile::access_of(*node);
    if (access == nullptr || std::holds_alternative<tile::Random>(*node)) continue;
    if (!is_read_only(kernel_, *access)) touches.insert(access->argument);
  }
  const auto meet = [](const std::vector<Span>& these, const std::vector<Span>& those) {
    return std::any_of(these.begin(), these.end(), [&](const Span& a) {
      return std::any_of(those.begin(), those.end(),
                         [&](const Span& b) { return a.begin < b.end && b.begin < a.end; });
    });
  };
  const bool touched = std::any_of(touches.begin(), touches.end(),
                                   [&](std::int32_t argument) { return touched_.contains(argument); });
  if (touched || meet(reads, written_) || meet(writes, written_) || meet(writes, read_)) barrier();
  read_.insert(read_.end(), reads.begin(), reads.end());
  written_.insert(written_.end(), writes.begin(), writes.end());
  touched_.merge(touches);
}

BlockOrder::Span BlockOrder::span(TileValue value) const {
  const SharedArray& array = plan_.array_of(value);
  return {array.offset, array.offset + array.bytes};
}

void BlockOrder::add_reads(TileValue operand, std::vector<Span>& reads) const {
  const BlockValue& own = plan_.value(operand);
  if (own.home == BlockHome::shared) reads.push_back(span(operand));
  if (own.home != BlockHome::again) return;
  for (TileValue inner : tile::operands_of(*own.node)) add_reads(inner, reads);
}

}  // namespace rewire::codegen::cuda
