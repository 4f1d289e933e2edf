#include "ir/passes/split_pointwise.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/opcodes.h"
#include "ir/ops/op_info.h"
#include "ir/passes/dce.h"
#include "ir/passes/rewrite.h"

namespace rewire::ir {
namespace {

bool is_pointwise(const Op& op) {
  return op_info(op.code).op_class == OpClass::pointwise && op.code != Opcode::constant;
}

/// A part of one axis of `whole`, and all of the other axes.
struct Part {
  std::size_t axis = 0;
  std::int64_t start = 0, limit = 0;
};

std::optional<Part> part_of(const Op& op, const Shape& whole) {
  if (op.code != Opcode::slice) return std::nullopt;
  const Ints& starts = op.attributes.get_ints("starts");
  const Ints& limits = op.attributes.get_ints("limits");
  const Ints& strides = op.attributes.get_ints("strides");
  if (!std::ranges::all_of(strides, [](std::int64_t stride) { return stride == 1; })) return std::nullopt;
  std::optional<Part> part;
  for (std::size_t axis = 0; axis < whole.size(); ++axis) {
    if (starts[axis] == 0 && limits[axis] == whole[axis]) continue;
    if (part) return std::nullopt;
    part = Part{axis, starts[axis], limits[axis]};
  }
  return part;
}

/// A chain of pointwise ops whose last value is only read in parts.
struct Chain {
  Value last;
  Shape whole;                                                   // the shape of `last`, after any reshape
  std::set<int> ops;                                             // body indices
  std::set<int> slices;                                          // the slices that read it
  std::map<std::pair<std::int32_t, std::int64_t>, Value> parts;  // by value and start
};

class Splitter {
 public:
  Splitter(Module& module, Function& function)
      : module_(module), function_(function), definitions_(function.definitions()) {
    users_.resize(function.types.size());
    for (std::size_t i = 0; i < function.body.size(); ++i) {
      for (Value operand : function.body[i].operands) users_[at(operand)].push_back(static_cast<int>(i));
    }
    for (const Argument& result : function.results) results_.insert(result.value.id);
    for (std::size_t i = 0; i < function.body.size(); ++i) find_chain(static_cast<int>(i));
  }

  void run() {
    if (chains_.empty()) return;
    BodyRewriter rewriter(module_, function_);
    int index = -1;
    rewriter.run([&](const Op& op) -> std::optional<std::vector<Value>> {
      const auto reader = chain_of_.find(++index);
      if (reader == chain_of_.end()) return std::nullopt;
      Chain& chain = chains_[reader->second];
      const Value result = op.results[0];
      const Value made = emit(rewriter.builder(), chain, chain.last, *part_of(op, chain.whole));
      replaced_[result.id] = made;
      return std::vector<Value>{made};
    });
  }

 private:
  static std::size_t at(Value value) { return static_cast<std::size_t>(value.id); }
  const Op* definition(Value value) const {
    const std::int32_t index = definitions_[at(value)];
    return index < 0 ? nullptr : &body_[static_cast<std::size_t>(index)];
  }

  /// Adds the chain that ends at the op `index`, or at the
  /// operand of the reshape `index`, if only slices read it.
  void find_chain(int index) {
    const Op& op = body_[static_cast<std::size_t>(index)];
    const bool reshapes = op.code == Opcode::reshape;
    if (!(reshapes || is_pointwise(op)) || results_.contains(op.results[0].id)) return;
    Chain chain{reshapes ? op.operands[0] : op.results[0], function_.type(op.results[0]).shape, {}, {}, {}};
    std::vector<Part> parts;
    for (int user : users_[at(op.results[0])]) {
      const std::optional<Part> part = part_of(body_[static_cast<std::size_t>(user)], chain.whole);
      if (!part || (!parts.empty() && parts[0].axis != part->axis)) return;
      parts.push_back(*part);
      chain.slices.insert(user);
    }
    std::ranges::sort(parts, {}, &Part::start);
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      if (parts[i].limit > parts[i + 1].start) return;
    }
    if (parts.size() < 2) return;
    grow(chain, reshapes ? std::set<int>{index} : chain.slices);
    if (chain.ops.empty() || chain.ops.size() * parts.size() > kMostOps) return;
    for (int slice : chain.slices) chain_of_[slice] = chains_.size();
    chains_.push_back(std::move(chain));
  }

  /// Adds the ops that only the chain, or the readers of its end, read. Later ops are decided first, so that
  /// all readers of an op are decided before it.
  void grow(Chain& chain, std::set<int> readers) const {
    const int end = definitions_[at(chain.last)];
    for (int index = end; index >= 0; --index) {
      const Op& op = body_[static_cast<std::size_t>(index)];
      if (!is_pointwise(op) || results_.contains(op.results[0].id)) continue;
      const std::vector<int>& users = users_[at(op.results[0])];
      if (users.empty() || !std::ranges::all_of(users, [&](int user) { return readers.contains(user); }))
        continue;
      chain.ops.insert(index);
      readers.insert(index);
    }
  }

  Value emit(Builder& b, Chain& chain, Value value, const Part& part) {
    const auto [known, fresh] = chain.parts.try_emplace({value.id, part.start});
    if (!fresh) return known->second;
    const std::int32_t index = definitions_[at(value)];
    const Value made = chain.ops.contains(index)
                           ? emit_op(b, chain, body_[static_cast<std::size_t>(index)], part)
                           : emit_leaf(b, chain, value, part);
    return chain.parts[{value.id, part.start}] = made;
  }

  Value emit_op(Builder& b, Chain& chain, const Op& op, const Part& part) {
    std::vector<Value> operands;
    for (Value operand : op.operands) operands.push_back(emit(b, chain, operand, part));
    std::optional<TensorType> requested;
    if (op.code == Opcode::cast)
      requested = TensorType{function_.type(op.results[0]).dtype, shape(chain, part)};
    return b.emit(op.code, operands, op.attributes, requested);
  }

  Value emit_leaf(Builder& b, const Chain& chain, Value value, const Part& part) const {
    const Op* op = definition(value);
    const bool splat =
        op != nullptr && op->code == Opcode::constant && op->attributes.get<Doubles>("values").empty();
    if (splat) {
      return b.constant(op->attributes.get_double("value"), function_.type(value).dtype, shape(chain, part));
    }
    if (op != nullptr && op->code == Opcode::reshape) value = op->operands[0];
    if (const auto it = replaced_.find(value.id); it != replaced_.end()) value = it->second;
    if (function_.type(value).shape != chain.whole) value = b.reshape(value, chain.whole);
    return b.slice(value, static_cast<int>(part.axis), part.start, part.limit);
  }

  static Shape shape(const Chain& chain, const Part& part) {
    Shape shape = chain.whole;
    shape[part.axis] = part.limit - part.start;
    return shape;
  }

  Module& module_;
  Function& function_;
  const std::vector<Op> body_ = function_.body;  // as it was before the pass
  std::vector<std::int32_t> definitions_;
  std::vector<std::vector<int>> users_;  // by Value::id: body indices
  std::set<std::int32_t> results_;
  std::vector<Chain> chains_;
  std::map<int, std::size_t> chain_of_;     // by the body index of a slice
  std::map<std::int32_t, Value> replaced_;  // by Value::id of a slice: its replacement
};

}  // namespace

void split_pointwise(Module& module, PassContext& context) {
  for (Function& function : module.functions) Splitter(module, function).run();
  dce(module, context);
}

}  // namespace rewire::ir
