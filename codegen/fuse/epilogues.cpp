// Finds products whose call can compute GELU in its tanh form, or its gradient, as an epilogue (GemmEpilogue
// in program.h):
//
//   pre = a b + bias,  y = gelu(pre)                  Only products read y. A kernel that reads y computes
//                                                     it itself, for less than a pass over memory.
//   d = (a b) gelu'(pre),  s = sum over rows of d     A product wrote pre, or pre is an argument. A product
//                                                     reads d.
//
// In both, b is a weight, a single matrix [k, n]. Other readers of pre, or of values between pre and y, are
// computed as before, from pre in memory. The products are found before any op is grouped, since ops that a
// call computes belong to no kernel.
#include <algorithm>

#include "codegen/fuse/chain.h"
#include "codegen/fuse/grouping.h"
#include "ir/opcodes.h"

namespace rewire::codegen {
namespace {

using ir::Op;
using ir::Opcode;
using ir::Shape;
using ir::Value;

/// Returns whether a sum with these shapes runs over all axes but the last.
bool sums_rows(const Shape& from, const Shape& to) {
  if (from.size() != to.size() || from.empty() || from.back() != to.back()) return false;
  return std::all_of(to.begin(), to.end() - 1, [](std::int64_t extent) { return extent == 1; });
}

}  // namespace

// Returns the root of a value: the value that it is a view of, through views that are not copies.
Value Grouping::root_of(Value value) const {
  std::int32_t at = definitions_[static_cast<std::size_t>(value.id)];
  while (at >= 0 && is_virtual(at)) {
    value = op(at).operands[0];
    at = definitions_[static_cast<std::size_t>(value.id)];
  }
  return value;
}

void Grouping::find_epilogues(const std::function<bool(const ProductEpilogue&)>& ask) {
  readers_.resize(function().types.size());
  const int count = static_cast<int>(function().body.size());
  for (int i = 0; i < count; ++i) {
    if (is_virtual(i)) continue;
    for (Value operand : op(i).operands) readers_[static_cast<std::size_t>(root_of(operand).id)].push_back(i);
  }
  // The results of products with their bias, by Value::id.
  std::map<std::int32_t, BiasedProduct> biased;
  std::set<std::int32_t> stops;
  std::set<int> taken;
  for (int i = count - 1; i >= 0; --i) {
    if (taken.contains(i) || is_virtual(i)) continue;
    auto product = biased_result(op(i));
    if (!product) continue;
    taken.insert(product->product.absorbed.begin(), product->product.absorbed.end());
    stops.insert(op(i).results[0].id);
    biased.emplace(op(i).results[0].id, std::move(*product));
  }
  // The ops whose results products read, in the order of execution.
  std::set<int> computed;
  for (int i = 0; i < count; ++i) {
    if (op(i).code != Opcode::matmul || !is_product_type(function().type(op(i).operands[0]).dtype)) continue;
    for (Value operand : op(i).operands) {
      const std::int32_t at = definitions_[static_cast<std::size_t>(root_of(operand).id)];
      if (at >= 0) computed.insert(at);
    }
  }
  std::set<int> members, of_calls;  // ops of chains; ops that calls compute
  for (const int index : computed) {
    if (op(index).results.size() != 1 || function().type(op(index).results[0]).elements() == 0) continue;
    const auto chain = chain_to(function(), definitions_, op(index).results[0], stops);
    if (!chain) continue;
    std::optional<Epilogue> found;
    if (chain->sources.size() == 1) {
      const auto product = biased.find(chain->sources[0].id);
      if (product == biased.end() || !is_gelu_by_tanh(function(), definitions_, *chain, op(index).results[0]))
        continue;
      found = gelu_epilogue(index, *chain, product->second);
      // Only the first gelu of a product, which the forward pass reads, becomes its epilogue. A gelu that
      // the backward pass recomputes does not.
      biased.erase(product);
    } else {
      found = gelu_gradient_epilogue(index, *chain, stops);
    }
    if (!found || !ask(facts_of(*found))) continue;
    const int anchor = found->epilogue == GemmEpilogue::gelu
                           ? definitions_[static_cast<std::size_t>(found->pre.id)]
                           : found->written;
    members.insert(chain->ops.begin(), chain->ops.end());
    of_calls.insert(found->absorbed.begin(), found->absorbed.end());
    epilogues_.emplace(anchor, std::move(*found));
  }
  // A shared op of two calls, such as the tanh of both, is absorbed if only absorbed ops read it.
  for (auto member = members.rbegin(); member != members.rend(); ++member) {
    const Value value = op(*member).results[0];
    const std::vector<int>& readers = readers_[static_cast<std::size_t>(value.id)];
    if (!is_result(value) &&
        std::all_of(readers.begin(), readers.end(), [&](int reader) { return of_calls.contains(reader); }))
      of_calls.insert(*member);
  }
  for (const auto& [anchor, found] : epilogues_) of_calls.erase(anchor);
  absorbed_ = std::move(of_calls);
  readers_.clear();
}

// Returns the ops of a chain that only other returned ops read, and `last`, which computes the chain's
// value.
std::set<int> Grouping::private_ops(const Chain& chain, int last) const {
  std::set<int> own = {last};
  for (auto member = chain.ops.rbegin(); member != chain.ops.rend(); ++member) {
    const Value value = op(*member).results[0];
    const std::vector<int>& readers = readers_[static_cast<std::size_t>(value.id)];
    if (!is_result(value) &&
        std::all_of(readers.begin(), readers.end(), [&](int reader) { return own.contains(reader); }))
      own.insert(*member);
  }
  return own;
}

std::optional<Grouping::Epilogue> Grouping::gelu_epilogue(int index, const Chain& chain,
                                                          const BiasedProduct& of) const {
  const Value value = op(index).results[0], pre = chain.sources[0];
  const std::vector<int>& readers = readers_[static_cast<std::size_t>(value.id)];
  if (function().type(pre).dtype != function().type(value).dtype ||
      function().type(op(of.product.matmul).operands[1]).rank() != 2 ||
      !std::all_of(readers.begin(), readers.end(),
                   [&](int reader) { return op(reader).code == Opcode::matmul; }))
    return std::nullopt;
  Epilogue found;
  found.epilogue = GemmEpilogue::gelu;
  found.matmul = of.product.matmul;
  found.bias = of.bias;
  found.pre = pre;
  found.written = index;
  found.absorbed = private_ops(chain, index);
  const std::vector<int>& others = readers_[static_cast<std::size_t>(pre.id)];
  found.keeps_pre = is_result(pre) || std::any_of(others.begin(), others.end(), [&](int reader) {
                      return !found.absorbed.contains(reader);
                    });
  found.absorbed.insert(of.product.absorbed.begin(), of.product.absorbed.end());
  return found;
}

std::optional<Grouping::Epilogue> Grouping::gelu_gradient_epilogue(
    int index, const Chain& chain, const std::set<std::int32_t>& stops) const {
  const Value value = op(index).results[0];
  if (chain.sources.size() != 2) return std::nullopt;
  const auto is_pre = [&](Value source) {
    return (stops.contains(source.id) || definitions_[static_cast<std::size_t>(source.id)] < 0) &&
           function().type(source).dtype == function().type(value).dtype;
  };
  const bool first = is_pre(chain.sources[0]);
  const Value pre = chain.sources[first ? 0 : 1], product = chain.sources[first ? 1 : 0];
  const std::int32_t matmul = definitions_[static_cast<std::size_t>(product.id)];
  if (!is_pre(pre) || matmul < 0 || op(matmul).code != Opcode::matmul || is_result(product) ||
      !is_product_type(function().type(product).dtype) ||
      function().type(op(matmul).operands[1]).rank() != 2 ||
      !is_gelu_gradient_by_tanh(function(), definitions_, chain, value, pre, product))
    return std::nullopt;
  Epilogue found;
  found.epilogue = GemmEpilogue::gelu_gradient;
  found.matmul = matmul;
  found.pre = pre;
  found.written = index;
  found.absorbed = private_ops(chain, index);
  // The call does not write the product itself, so it must compute every op that depends on the product.
  const std::vector<int>& of_it = readers_[static_cast<std::size_t>(product.id)];
  if (!std::all_of(of_it.begin(), of_it.end(), [&](int reader) { return found.absorbed.contains(reader); }))
    return std::nullopt;
  std::set<std::int32_t> of_product = {product.id};
  for (const int member : chain.ops) {
    const bool depends = std::any_of(op(member).operands.begin(), op(member).operands.end(),
                                     [&](Value operand) { return of_product.contains(operand.id); });
    if (!depends) continue;
    if (!found.absorbed.contains(member)) return std::nullopt;
    of_product.insert(op(member).results[0].id);
  }
  for (const int reader : readers_[static_cast<std::size_t>(value.id)]) {
    int sum = reader;
    if (op(reader).code == Opcode::cast && !is_result(op(reader).results[0])) {
      const std::vector<int>& readers = readers_[static_cast<std::size_t>(op(reader).results[0].id)];
      if (readers.size() != 1) continue;
      sum = readers[0];
    }
    if (op(sum).code != Opcode::sum || !adds_rows_of(value, sum)) continue;
    if (found.sum >= 0) return std::nullopt;  // a call has only one sum
    found.sum = sum;
    found.absorbed.insert({reader, sum});
  }
  if (found.sum < 0) return std::nullopt;
  found.absorbed.insert(matmul);
  found.keeps_pre = true;
  return found;
}

// Returns whether a sum adds the rows of `value`, seen through casts, and through views that keep its last
// axis.
bool Grouping::adds_rows_of(Value value, int sum) const {
  const std::int64_t columns = function().type(value).shape.back();
  Value operand = op(sum).operands[0];
  if (!sums_rows(function().type(operand).shape, function().type(op(sum).results[0]).shape)) return false;
  while (operand != value) {
    const Op* const view = definition(operand);
    if (view == nullptr || (view->code != Opcode::reshape && view->code != Opcode::cast) ||
        function().type(operand).shape.back() != columns)
      return false;
    operand = view->operands[0];
  }
  return true;
}

ProductEpilogue Grouping::facts_of(const Epilogue& found) const {
  const Op& matmul = op(found.matmul);
  const ir::TensorType& written = function().type(op(found.written).results[0]);
  const ir::TensorType& a = function().type(matmul.operands[0]);
  const bool transposed = matmul.attributes.has("transpose_a") && matmul.attributes.get_bool("transpose_a");
  ProductEpilogue facts;
  facts.epilogue = found.epilogue;
  facts.keeps_pre = found.keeps_pre;
  facts.n = written.shape.back();
  facts.m = written.elements() / facts.n;
  facts.k = a.shape[a.shape.size() - (transposed ? 2 : 1)];
  facts.dtype = a.dtype;
  facts.result = written.dtype;
  return facts;
}

void Grouping::process_found_epilogue(const Epilogue& found) {
  GroupNode node;
  node.opaque = true;
  node.op = found.matmul;
  node.epilogue = found.written;
  node.kind = found.epilogue;
  for (Value operand : op(found.matmul).operands) node.operands.push_back(opaque_operand(operand, true));
  if (found.epilogue == GemmEpilogue::gelu) {
    node.operands.push_back(found.bias);
    if (found.keeps_pre) node.other = definitions_[static_cast<std::size_t>(found.pre.id)];
  } else {
    node.operands.push_back(dense_operand(found.pre));
    node.other = found.sum;
  }
  std::vector<int> others;
  if (node.other >= 0) others.push_back(node.other);
  if (node.other >= 0 && found.epilogue == GemmEpilogue::gelu) dense_.insert(op(node.other).results[0].id);
  dense_.insert(op(found.written).results[0].id);
  commit_opaque(std::move(node), op(found.written), others);
}

}  // namespace rewire::codegen
