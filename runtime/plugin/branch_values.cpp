#include "runtime/plugin/branch_values.h"

#include <algorithm>
#include <array>
#include <deque>
#include <set>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "ir/ops/op_info.h"

namespace rewire::runtime {
namespace {

class Finder {
 public:
  Finder(const ir::Function& function, Definitions& definitions, std::size_t join)
      : function_(function), definitions_(definitions), at_(join), join_(ir::read_join(op(join))) {}

  std::optional<RoleValue> norm_input() {
    if (const std::optional<RoleValue> found = layer_norm_input()) return found;
    return other_norm_input();
  }

  std::optional<RoleValue> input() { return read_in_branch(join_.input); }

  std::optional<RoleValue> attention_operand(std::size_t index) {
    const std::optional<std::size_t> attention = find_attention();
    if (!attention) return std::nullopt;
    return operand(*attention, index);
  }
  std::optional<RoleValue> attention() {
    const std::optional<std::size_t> attention = find_attention();
    if (!attention) return std::nullopt;
    return read_in_branch(op(*attention).results[0]);
  }

  std::optional<RoleValue> hidden() {
    for (const std::size_t at : walk()) {
      const std::vector<ir::Value>& operands = op(at).operands;
      if (operands.size() < 2 || !is_last_weight(operands[1])) continue;
      return operand(at, 0);
    }
    return std::nullopt;
  }

  /// Returns the value and its readers among the first `old_ops` ops of the body and among the results.
  RoleValue read_by_all(ir::Value value, std::size_t old_ops, std::size_t join) const {
    RoleValue found{value, {}, {}, join};
    for (std::size_t at = 0; at < old_ops; ++at) add_uses(found, at);
    for (std::size_t i = 0; i < function_.results.size(); ++i)
      if (function_.results[i].value == value) found.results.push_back(i);
    return found;
  }
  /// Returns the body index of the first or last join of the scope.
  std::size_t join_of_scope(bool first) const {
    std::size_t found = at_;
    std::int64_t index = join_.join_index;
    for (const std::size_t at : ir::find_joins(function_)) {
      const ir::Join other = ir::read_join(op(at));
      const bool further = first ? other.join_index < index : other.join_index > index;
      if (other.scope != join_.scope || !further) continue;
      found = at, index = other.join_index;
    }
    return found;
  }

 private:
  std::optional<RoleValue> layer_norm_input() {
    const ir::Op* norm = producer(join_.input);
    const auto is_norm = [](const ir::Op& op) {
      return op.code == ir::Opcode::layer_norm || op.code == ir::Opcode::rms_norm;
    };
    for (; norm != nullptr && !is_norm(*norm); norm = producer(norm->operands[0]))
      if (!only_reshapes(*norm)) return std::nullopt;
    if (norm == nullptr) return std::nullopt;
    std::size_t at = index_of(norm);
    // The norm may read the stream in another form: feature maps, for example, with the channels last.
    while (type_of(at, 0) != function_.type(join_.stream)) {
      const ir::Op* reshape = producer(op(at).operands[0]);
      if (reshape == nullptr || !only_reshapes(*reshape)) return std::nullopt;
      at = index_of(reshape);
    }
    if (!input()) return std::nullopt;
    return operand(at, 0);
  }

  /// A norm of other ops, such as an RMS norm: what lies between the stream and the branch's input has no
  /// contraction, but a mean or a norm. It reads the stream in one or more places.
  std::optional<RoleValue> other_norm_input() {
    if (join_.input == join_.stream) return std::nullopt;
    RoleValue found{join_.stream, {}, {}, at_};
    bool normalises = false;
    for (const std::size_t at : walk_from(join_.input)) {
      const ir::OpInfo& info = ir::op_info(op(at).code);
      const bool is_norm = op(at).code == ir::Opcode::layer_norm || op(at).code == ir::Opcode::batch_norm;
      if (info.op_class == ir::OpClass::contract || op(at).code == ir::Opcode::attention) return std::nullopt;
      normalises |= is_norm || op(at).code == ir::Opcode::sum;
      add_uses(found, at);
    }
    if (!normalises || found.uses.empty() || !input()) return std::nullopt;
    return found;
  }

  const ir::Op& op(std::size_t at) const { return function_.body[at]; }
  std::size_t index_of(const ir::Op* op) const {
    return static_cast<std::size_t>(op - function_.body.data());
  }
  /// Returns the op in the branch that computes the value; nullptr for the stream,
  /// which earlier ops compute.
  const ir::Op* producer(ir::Value value) { return value == join_.stream ? nullptr : definitions_.op(value); }
  const ir::TensorType& type_of(std::size_t at, std::size_t operand) const {
    return function_.type(op(at).operands[operand]);
  }

  static bool only_reshapes(const ir::Op& op) {
    return op.code == ir::Opcode::reshape || op.code == ir::Opcode::transpose || op.code == ir::Opcode::cast;
  }

  /// Returns the ops that compute the branch, from its end back to the stream, its input or another join.
  std::vector<std::size_t> walk() { return walk_from(join_.branch, {join_.stream, join_.input}); }
  /// Returns the ops that compute the value, back to the stream or another join.
  std::vector<std::size_t> walk_from(ir::Value value) { return walk_from(value, {join_.stream}); }
  std::vector<std::size_t> walk_from(ir::Value value, std::set<ir::Value> seen) {
    std::vector<std::size_t> ops;
    std::deque<ir::Value> pending = {value};
    for (; !pending.empty(); pending.pop_front()) {
      if (!seen.insert(pending.front()).second) continue;
      const std::int32_t at = definitions_.of(pending.front());
      if (at < 0 || op(static_cast<std::size_t>(at)).code == ir::Opcode::residual) continue;
      ops.push_back(static_cast<std::size_t>(at));
      const std::vector<ir::Value>& operands = op(ops.back()).operands;
      pending.insert(pending.end(), operands.begin(), operands.end());
    }
    return ops;
  }

  std::optional<std::size_t> find_attention() {
    for (const std::size_t at : walk())
      if (op(at).code == ir::Opcode::attention) return at;
    return std::nullopt;
  }

  bool is_last_weight(ir::Value value) {
    const ir::Op* found = definitions_.op(value);
    while (found != nullptr && only_reshapes(*found)) found = definitions_.op(found->operands[0]);
    return found != nullptr && found->code == ir::Opcode::param &&
           found->attributes.get_string("name") == join_.last_weight;
  }

  RoleValue operand(std::size_t at, std::size_t index) const {
    return {op(at).operands.at(index), {{at, index}}, {}, at_};
  }
  void add_uses(RoleValue& found, std::size_t at) const {
    const std::vector<ir::Value>& operands = op(at).operands;
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (operands[i] == found.value) found.uses.push_back({at, i});
  }
  std::optional<RoleValue> read_in_branch(ir::Value value) {
    RoleValue found{value, {}, {}, at_};
    for (const std::size_t at : walk()) add_uses(found, at);
    if (found.uses.empty()) return std::nullopt;
    return found;
  }

  const ir::Function& function_;
  Definitions& definitions_;
  std::size_t at_;
  ir::Join join_;
};

}  // namespace

std::optional<RoleValue> find_role(const ir::Function& function, Definitions& definitions, std::size_t join,
                                   std::string_view role, std::size_t old_ops) {
  Finder finder(function, definitions, join);
  if (role == "norm_input") return finder.norm_input();
  if (role == "input") return finder.input();
  if (role == "attention") return finder.attention();
  if (role == "hidden") return finder.hidden();
  constexpr std::array<std::string_view, 3> kOperands = {"q", "k", "v"};
  if (const auto found = std::ranges::find(kOperands, role); found != kOperands.end())
    return finder.attention_operand(static_cast<std::size_t>(found - kOperands.begin()));
  if (role == "entry" || role == "exit") {
    const std::size_t at = finder.join_of_scope(role == "entry");
    const ir::Op& op = function.body[at];
    return finder.read_by_all(role == "entry" ? ir::read_join(op).stream : op.results[0], old_ops, at);
  }
  user_error(
      "'{}' is not a role of a value; choose from norm_input, input, q, k, v, attention, hidden, entry, exit",
      role);
}

}  // namespace rewire::runtime
