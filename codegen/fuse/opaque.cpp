// The calls among the groups: contractions, attention, concat, host ops. Their operands are views where the
// call can take strides, dense memory elsewhere; a matmul takes the bias that is added to it.
#include <algorithm>

#include "codegen/fuse/grouping.h"
#include "ir/error.h"
#include "ir/ops/op_info.h"

namespace rewire::codegen {

using ir::Op;
using ir::Opcode;
using ir::Shape;
using ir::Value;

namespace {

std::int64_t coefficient(const Affine& affine, int axis) {
  const auto it = affine.terms.find(axis);
  return it == affine.terms.end() ? 0 : it->second;
}

// A matrix a GEMM library reads as it is: of its last two dimensions one has stride 1, neither repeats.
bool is_matrix(const Affine& linear, const Shape& shape) {
  const int rank = static_cast<int>(shape.size());
  bool unit = false;
  for (int d = rank - 2; d < rank; ++d) {
    if (shape[static_cast<std::size_t>(d)] == 1) {
      unit = true;
      continue;
    }
    const std::int64_t stride = coefficient(linear, d);
    if (stride == 0) return false;
    unit = unit || stride == 1;
  }
  return unit;
}

}  // namespace

// The map of `value` through its views over axes that are its own dimensions; `value` becomes the root.
// nullopt if that takes a split.
std::optional<IndexMap> Grouping::view_map(Value& value) const {
  const Shape& shape = function().type(value).shape;
  Extents extents(shape.begin(), shape.end());
  IndexMap map(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1) map[d].terms[static_cast<int>(d)] = 1;
  }
  while (true) {
    const std::int32_t at = definitions_[static_cast<std::size_t>(value.id)];
    if (at < 0 || !is_virtual(at)) return map;
    const Op& view = op(at);
    std::optional<AxisSplit> split;
    auto next = operand_map(view, function().type(view.operands[0]).shape, function().type(value).shape, map,
                            extents, split);
    if (!next) return std::nullopt;
    map = std::move(*next);
    value = view.operands[0];
  }
}

// An operand that no strides describe is read by linear index from the value below its reshapes, which then
// stands densely in memory.
Source Grouping::opaque_operand(Value value, bool matrix) {
  Value root = value;
  const Shape shape = function().type(value).shape;
  if (auto map = view_map(root)) {
    if (!matrix || is_matrix(linear_index(*map, function().type(root).shape), shape)) {
      const std::int32_t at = definitions_[static_cast<std::size_t>(root.id)];
      if (at >= 0 && op(at).code == Opcode::iota) prepared_.copy[static_cast<std::size_t>(at)] = true;
      return {root, false, false, std::move(*map)};
    }
  }
  Value base = value;
  std::int32_t at = definitions_[static_cast<std::size_t>(base.id)];
  while (at >= 0 && op(at).code == Opcode::reshape && is_virtual(at)) {
    base = op(at).operands[0];
    at = definitions_[static_cast<std::size_t>(base.id)];
  }
  if (at >= 0 && (is_virtual(at) || op(at).code == Opcode::iota))
    prepared_.copy[static_cast<std::size_t>(at)] = true;
  dense_.insert(base.id);
  IndexMap own(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1) own[d].terms[static_cast<int>(d)] = 1;
  }
  return {base, true, false, {linear_index(own, shape)}};
}

Source Grouping::dense_operand(Value value) {
  const std::int32_t at = definitions_[static_cast<std::size_t>(value.id)];
  if (at >= 0 && (is_virtual(at) || op(at).code == Opcode::iota))
    prepared_.copy[static_cast<std::size_t>(at)] = true;
  dense_.insert(value.id);
  return {value, false, false, *view_map(value)};
}

void Grouping::commit_opaque(GroupNode node, const Op& result_op) {
  const int id = static_cast<int>(nodes_.size());
  for (std::size_t k = 0; k < node.operands.size(); ++k) {
    const Value root = node.operands[k].root;
    uses_[static_cast<std::size_t>(root.id)].push_back({id, node.op, static_cast<int>(k)});
    const Op* leaf = definition(root);
    if (leaf != nullptr && leaf->code == Opcode::param)
      node.reads.insert(leaf->attributes.get_string("name"));
  }
  for (Value result : result_op.results) {
    producer_[static_cast<std::size_t>(result.id)] = id;
    if (node.opaque && result_op.code != Opcode::matmul && result_op.code != Opcode::add &&
        result_op.code != Opcode::attention && result_op.code != Opcode::attention_grad &&
        result_op.code != Opcode::concat) {
      dense_.insert(result.id);
    }
  }
  add_node(std::move(node));
  add_edges(id, result_op);
  if (fuse_) {
    for (Value result : result_op.results) merge_readers(result, Readers::all);
  }
}

void Grouping::process_opaque(int index) {
  const Op& call = op(index);
  GroupNode node;
  node.opaque = true;
  node.op = index;
  const bool gemm = call.code == Opcode::matmul && ir::is_float(function().type(call.operands[0]).dtype) &&
                    function().type(call.operands[0]).dtype != ir::DType::f64;
  for (Value operand : call.operands) {
    switch (call.code) {
      case Opcode::matmul:
        node.operands.push_back(gemm ? opaque_operand(operand, true) : dense_operand(operand));
        break;
      case Opcode::attention:
      case Opcode::attention_grad:
        node.operands.push_back(opaque_operand(operand, false));
        break;
      case Opcode::concat:
        node.operands.push_back(opaque_operand(operand, false));
        break;
      default:
        node.operands.push_back(dense_operand(operand));
    }
  }
  commit_opaque(std::move(node), call);
}

// matmul + broadcast(bias [n]), where nothing else reads the matmul: one call.
bool Grouping::process_bias(int index) {
  const Op& add = op(index);
  if (!fuse_ || add.code != Opcode::add || function().type(add.results[0]).dtype == ir::DType::f64)
    return false;
  for (std::size_t k = 0; k < 2; ++k) {
    const Value product = add.operands[k];
    const std::int32_t at = definitions_[static_cast<std::size_t>(product.id)];
    if (at < 0 || op(at).code != Opcode::matmul || is_result(product)) continue;
    if (direct_users_[static_cast<std::size_t>(product.id)].size() != 1) continue;
    const Shape& shape = function().type(product).shape;
    Value bias = add.operands[1 - k];
    const auto map = view_map(bias);
    const Op* leaf = definition(bias);
    if (!map || leaf == nullptr || leaf->code != Opcode::param ||
        function().type(bias).elements() != shape.back())
      continue;
    const Affine linear = linear_index(*map, function().type(bias).shape);
    const int last = static_cast<int>(shape.size()) - 1;
    if (linear.offset != 0 || linear.terms.size() != 1 || coefficient(linear, last) != 1) continue;
    GroupNode node;
    node.opaque = true;
    node.op = at;
    node.bias_add = index;
    for (Value operand : op(at).operands) node.operands.push_back(opaque_operand(operand, true));
    node.operands.push_back({bias, false, false, *map});
    absorbed_.insert(at);
    commit_opaque(std::move(node), add);
    return true;
  }
  return false;
}

}  // namespace rewire::codegen
