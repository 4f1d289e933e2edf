// Makes nodes of calls: contractions, attention, concat, host ops. Their operands are views if the call can
// take strides, otherwise dense memory. A matmul also takes the bias that is added to it.
#include <algorithm>
#include <array>

#include "codegen/fuse/grouping.h"
#include "codegen/lowering_steps.h"
#include "ir/error.h"
#include "ir/opcodes.h"
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

// Returns whether a GEMM library can read a matrix as it is: one of its last two dimensions has stride 1,
// and neither repeats.
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

// Follows `value` through its views to their root, which replaces it. Returns the root's map over the
// dimensions of the original value; nullopt if a view would split an axis.
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

// Returns the source of an operand. An operand that no strides describe is read by linear index from the
// value under its reshapes, which then must be dense in memory.
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

bool Grouping::is_one_number(Value value) const {
  return view_map(value) && function().type(value).elements() == 1;
}

Source Grouping::dense_operand(Value value) {
  const std::int32_t at = definitions_[static_cast<std::size_t>(value.id)];
  if (at >= 0 && (is_virtual(at) || op(at).code == Opcode::iota))
    prepared_.copy[static_cast<std::size_t>(at)] = true;
  dense_.insert(value.id);
  return {value, false, false, *view_map(value)};
}

// Adds the node of a call. `others`: other ops whose results the call writes.
void Grouping::commit_opaque(GroupNode node, const Op& result_op, const std::vector<int>& others) {
  const int id = static_cast<int>(nodes_.size());
  for (std::size_t k = 0; k < node.operands.size(); ++k) {
    const Value root = node.operands[k].root;
    uses_[static_cast<std::size_t>(root.id)].push_back({id, node.op, static_cast<int>(k)});
    const Op* leaf = definition(root);
    if (leaf != nullptr && leaf->code == Opcode::param) {
      const std::string& name = leaf->attributes.get_string("name");
      node.reads.insert(name);
      parameter_readers_[name].push_back(id);
    }
  }
  for (Value result : result_op.results) {
    producer_[static_cast<std::size_t>(result.id)] = id;
    if (node.opaque && result_op.code != Opcode::matmul && node.epilogue < 0 &&
        result_op.code != Opcode::attention && result_op.code != Opcode::attention_grad &&
        result_op.code != Opcode::concat) {
      dense_.insert(result.id);
    }
  }
  std::vector<int> computed = {node.op, node.epilogue};
  computed.insert(computed.end(), others.begin(), others.end());
  add_node(std::move(node));
  for (const int index : computed) {
    if (index >= 0) order_.add_span(id, spans_[static_cast<std::size_t>(index)]);
  }
  add_edges(id, result_op);
  std::vector<Value> written = result_op.results;
  for (const int other : others) {
    const std::vector<Value>& results = op(other).results;
    for (Value result : results) producer_[static_cast<std::size_t>(result.id)] = id;
    add_edges(id, op(other));
    written.insert(written.end(), results.begin(), results.end());
  }
  if (fuse_) {
    for (Value result : written) merge_readers(result, Readers::all);
  }
}

bool Grouping::is_product_type(ir::DType dtype) const {
  return dtype == ir::DType::f32 || dtype == ir::DType::bf16 || (any_float_product_ && ir::is_float(dtype));
}

void Grouping::process_opaque(int index) {
  const Op& call = op(index);
  GroupNode node;
  node.opaque = true;
  node.op = index;
  const bool gemm = call.code == Opcode::matmul && is_product_type(function().type(call.operands[0]).dtype);
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
      case Opcode::scatter_add:  // a base of one number is read where it is
        node.operands.push_back(operand == call.operands[0] && is_one_number(operand)
                                    ? opaque_operand(operand, false)
                                    : dense_operand(operand));
        break;
      default:
        node.operands.push_back(dense_operand(operand));
    }
  }
  node.accumulates = call.code == Opcode::scatter_add && is_own_sum(call.operands[0]);
  std::vector<int> others;
  if (const auto found = token_sums_.find(index); found != token_sums_.end()) {
    node.sums = found->second;
    for (const TokenSums& sums : node.sums) others.push_back(sums.op);
  }
  commit_opaque(std::move(node), call, others);
}

// Returns the op that defines a value, if it is of this kind and only one op reads the value; otherwise -1.
int Grouping::sole_definition(Value value, Opcode code) const {
  const std::int32_t at = definitions_[static_cast<std::size_t>(value.id)];
  const bool sole = at >= 0 && op(at).code == code && !is_result(value) &&
                    direct_uses_[static_cast<std::size_t>(value.id)] == 1;
  return sole ? at : -1;
}

// Matches matmul, or f32(matmul of bf16): the call accumulates in f32 in any case.
std::optional<Product> Grouping::product(Value value) const {
  const auto dtype = [&](Value of) { return function().type(of).dtype; };
  if (const int matmul = sole_definition(value, Opcode::matmul); matmul >= 0) {
    if (!is_product_type(dtype(value))) return std::nullopt;
    return Product{matmul, {matmul}};
  }
  const int cast = sole_definition(value, Opcode::cast);
  if (cast < 0 || dtype(value) != ir::DType::f32) return std::nullopt;
  const int matmul = sole_definition(op(cast).operands[0], Opcode::matmul);
  if (matmul < 0 || dtype(op(cast).operands[0]) != ir::DType::bf16) return std::nullopt;
  return Product{matmul, {matmul, cast}};
}

// Returns whether a value is a sum or a product that one op alone reads, which may then change it in memory.
bool Grouping::is_own_sum(Value value) const {
  return sole_definition(value, Opcode::add) >= 0 || product(value).has_value();
}

// Matches sum + product, where the sum is a product or again such a sum, and so large that no cache holds it:
// then the call adds to the sum in memory. A kernel that adds products of its own accord reads all of them.
std::optional<AddedProduct> Grouping::added_product(const Op& add) const {
  constexpr std::int64_t kLeastBytes = 16 << 20;
  const ir::TensorType& type = function().type(add.results[0]);
  if (add.code != Opcode::add || type.dtype != ir::DType::f32 || type.bytes() < kLeastBytes)
    return std::nullopt;
  const Value sum = add.operands[0];
  std::optional<Product> of = product(add.operands[1]);
  if (!of || sum == add.operands[1]) return std::nullopt;
  const int earlier = sole_definition(sum, Opcode::add);
  if (!product(sum) && (earlier < 0 || !added_product(op(earlier)))) return std::nullopt;
  return AddedProduct{std::move(*of), sum};
}

// Matches product + broadcast(bias [n]), where the bias is a parameter.
std::optional<BiasedProduct> Grouping::biased_product(Value sum) const {
  const Op* add = definition(sum);
  if (add == nullptr || add->code != Opcode::add) return std::nullopt;
  for (std::size_t k = 0; k < 2; ++k) {
    std::optional<Product> of = product(add->operands[k]);
    if (!of) continue;
    const Shape& shape = function().type(sum).shape;
    Value bias = add->operands[1 - k];
    const auto map = view_map(bias);
    const Op* leaf = definition(bias);
    if (!map || leaf == nullptr || leaf->code != Opcode::param ||
        function().type(bias).elements() != shape.back())
      continue;
    const Affine linear = linear_index(*map, function().type(bias).shape);
    const int last = static_cast<int>(shape.size()) - 1;
    if (linear.offset != 0 || linear.terms.size() != 1 || coefficient(linear, last) != 1) continue;
    return BiasedProduct{std::move(*of), {bias, false, false, *map}};
  }
  return std::nullopt;
}

// Returns whether the result in f32 is a small part of what the call moves. A weight's gradient is: it
// contracts over all rows. A gradient of the stream is not: the kernel that asks for its f32 reads it as
// bf16.
bool Grouping::is_small_result(const Op& matmul) const {
  constexpr std::int64_t kLeastShare = 4;
  std::int64_t read = 0;
  for (Value operand : matmul.operands) read += function().type(operand).bytes();
  return kLeastShare * function().type(matmul.results[0]).elements() * 4 <= read;
}

// Matches a product with its bias:
//   matmul + bias      bf16(f32(matmul of bf16) + bias)
std::optional<BiasedProduct> Grouping::biased_result(const Op& last) const {
  if (last.code == Opcode::add) return biased_product(last.results[0]);
  if (last.code != Opcode::cast || function().type(last.results[0]).dtype != ir::DType::bf16)
    return std::nullopt;
  const int add = sole_definition(last.operands[0], Opcode::add);
  std::optional<BiasedProduct> biased;
  if (add >= 0) biased = biased_product(last.operands[0]);
  if (!biased) return std::nullopt;
  // No library writes bf16 from operands in f32.
  if (function().type(op(biased->product.matmul).operands[0]).dtype != ir::DType::bf16) return std::nullopt;
  biased->product.absorbed.push_back(add);
  return biased;
}

// Makes one call, which rounds once, of
//   matmul + bias      bf16(f32(matmul of bf16) + bias)      f32(matmul of bf16), if it is small or begins a sum
//   sum + matmul       sum + f32(matmul of bf16)
bool Grouping::process_epilogue(int index) {
  const Op& last = op(index);
  if (!fuse_ || !does(kBiasInCalls) || (last.code != Opcode::add && last.code != Opcode::cast)) return false;
  const Value written = last.results[0];
  const std::optional<AddedProduct> added = added_product(last);
  const std::optional<BiasedProduct> biased = biased_result(last);
  std::optional<Product> plain;
  if (last.code == Opcode::cast && function().type(written).dtype == ir::DType::f32 &&
      function().type(last.operands[0]).dtype == ir::DType::bf16) {
    plain = product(last.operands[0]);
    const std::vector<Use>& readers = uses(written);
    const bool begins_sum = readers.size() == 1 && readers[0].operand == 2 &&
                            nodes_[static_cast<std::size_t>(readers[0].node)].accumulates;
    if (plain && !begins_sum && !is_small_result(op(plain->matmul))) plain.reset();
  }
  if (!added && !biased && !plain) return false;
  const Product& of = added ? added->product : biased ? biased->product : *plain;
  GroupNode node;
  node.opaque = true;
  node.op = of.matmul;
  node.epilogue = index;
  for (Value operand : op(of.matmul).operands) node.operands.push_back(opaque_operand(operand, true));
  if (added) {
    node.accumulates = true;
    node.operands.push_back(opaque_operand(added->sum, false));
  } else if (biased) {
    node.operands.push_back(biased->bias);
  }
  absorbed_.insert(of.absorbed.begin(), of.absorbed.end());
  commit_opaque(std::move(node), last);
  return true;
}

}  // namespace rewire::codegen
