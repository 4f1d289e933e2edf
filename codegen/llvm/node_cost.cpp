// Estimates costs by kind of node.
#include "codegen/llvm/node_cost.h"

#include "codegen/tile/walk.h"
#include "ir/ops/op_info.h"

namespace rewire::codegen::cpu {
namespace {

/// Estimates how many instructions a pointwise op takes on one vector.
int pointwise_cost(ir::Opcode code) {
  const double operations = ir::operations_each(code);
  if (operations <= 1) return 1;
  if (operations <= 4) return kDear;
  return operations <= 20 ? 20 : 60;
}

}  // namespace

int node_cost(const LoopProgram& program, const tile::Node& node) {
  if (const auto* pointwise = std::get_if<tile::Pointwise>(&node)) return pointwise_cost(pointwise->code);
  if (const auto* random = std::get_if<tile::Random>(&node)) return random->normal ? 200 : 100;
  if (const auto* load = std::get_if<tile::Load>(&node)) {
    const std::vector<std::int32_t>& lanes = program.info(load->result).lanes;
    if (lanes.empty()) return 1;
    const bool gather = load->index && tile::contains_lane(program.info(load->index).lanes, lanes.back());
    const std::int64_t stride = load->access.strides[static_cast<std::size_t>(lanes.back())];
    return gather || stride < 0 || stride > 1 ? 16 : 1;
  }
  return std::holds_alternative<tile::Constant>(node) ? 0 : 1;
}

}  // namespace rewire::codegen::cpu
