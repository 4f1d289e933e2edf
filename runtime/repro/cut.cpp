#include "runtime/repro/cut.h"

#include <algorithm>
#include <map>
#include <set>

#include "codegen/fuse/prepare.h"
#include "ir/opcodes.h"
#include "ir/verify.h"

namespace rewire::runtime {
namespace {

class Cutter {
 public:
  Cutter(const ir::Module& module, const std::vector<int>& ops)
      : module_(module),
        function_(module.functions.front()),
        ops_(ops.begin(), ops.end()),
        taken_(ops_),
        definitions_(function_.definitions()) {
    for (std::size_t i = 0; i < function_.body.size(); ++i) {
      for (const ir::Value operand : function_.body[i].operands)
        users_[operand.id].push_back(static_cast<int>(i));
    }
  }

  Cut cut() {
    for (const int index : ops_) {
      for (const ir::Value operand : op(index).operands) take(operand);
    }
    out_.name = kCutFunction;
    out_.trains = function_.trains;
    for (const ir::Value input : inputs_) {
      values_[input.id] = out_.new_value(function_.type(input));
      out_.arguments.push_back({unique_name(name_of(input)), values_[input.id]});
    }
    for (const auto& [value, transpose] : transposed_) restore(value, op(transpose));
    for (const int index : taken_) copy(op(index));
    for (const int index : ops_) add_results(op(index));
    Cut cut{module_, {inputs_.begin(), inputs_.end()}};
    cut.module.functions.assign(1, std::move(out_));
    cut.module.drop_unused_parameters();
    ir::verify(cut.module);
    return cut;
  }

 private:
  const ir::Op& op(int index) const { return function_.body[static_cast<std::size_t>(index)]; }
  int definition(ir::Value value) const { return definitions_[static_cast<std::size_t>(value.id)]; }

  /// Takes a value that an op reads. The value becomes an argument of the cut. Leaves and shape ops are
  /// copied into the cut instead, and their operands are taken.
  void take(ir::Value value) {
    const int index = definition(value);
    if (index >= 0 && taken_.contains(index)) return;
    const bool is_seen_through =
        index >= 0 && (codegen::is_leaf(op(index).code) || codegen::is_view(op(index).code));
    if (!is_seen_through) {
      if (const int transpose = transpose_of_call(value); transpose >= 0) {
        transposed_[value.id] = transpose;
        value = op(transpose).results[0];
      }
      inputs_.insert(value);
      return;
    }
    taken_.insert(index);
    for (const ir::Value operand : op(index).operands) take(operand);
  }

  /// If a transpose reads a call's result, the result lies in memory transposed: returns the body index of
  /// the transpose. Returns -1 otherwise.
  int transpose_of_call(ir::Value value) const {
    const int index = definition(value);
    if (index < 0 || codegen::is_fusible(op(index).code)) return -1;
    const auto users = users_.find(value.id);
    if (users == users_.end()) return -1;
    const auto found =
        std::ranges::find_if(users->second, [&](int user) { return op(user).code == ir::Opcode::transpose; });
    return found == users->second.end() ? -1 : *found;
  }

  /// Computes the original value from the argument, which is its transpose.
  void restore(std::int32_t value, const ir::Op& transpose) {
    const ir::Ints& permutation = transpose.attributes.get_ints("permutation");
    ir::Ints inverse(permutation.size());
    for (std::size_t i = 0; i < permutation.size(); ++i)
      inverse[static_cast<std::size_t>(permutation[i])] = static_cast<std::int64_t>(i);
    ir::Op op = transpose;
    op.operands = {values_.at(transpose.results[0].id)};
    op.attributes.set("permutation", inverse);
    op.results = {out_.new_value(function_.type({value}))};
    values_[value] = op.results[0];
    out_.body.push_back(std::move(op));
  }

  void copy(const ir::Op& from) {
    ir::Op op = from;
    for (ir::Value& operand : op.operands) operand = values_.at(operand.id);
    for (ir::Value& result : op.results) {
      const std::int32_t id = result.id;
      result = values_[id] = out_.new_value(function_.type(result));
    }
    out_.body.push_back(std::move(op));
  }

  void add_results(const ir::Op& op) {
    for (const ir::Value result : op.results) {
      if (is_read_outside(result) && !stands_elsewhere(op, result))
        out_.results.push_back({unique_name(name_of(result)), values_.at(result.id)});
    }
  }

  /// Returns true if a call's result lies in memory only as part of the result of another op that is
  /// cut out, a copy or concat.
  bool stands_elsewhere(const ir::Op& call, ir::Value result) const {
    const auto users = users_.find(result.id);
    return !codegen::is_fusible(call.code) && users != users_.end() &&
           std::ranges::any_of(users->second, [&](int user) { return ops_.contains(user); });
  }

  /// Returns true if an op that is not cut out or the function's caller reads the
  /// value, also through shape ops.
  bool is_read_outside(ir::Value value) const {
    if (std::ranges::find(function_.results, value, &ir::Argument::value) != function_.results.end())
      return true;
    const auto users = users_.find(value.id);
    if (users == users_.end()) return false;
    return std::ranges::any_of(users->second, [&](int user) {
      if (ops_.contains(user)) return false;
      return !codegen::is_view(op(user).code) || is_read_outside(op(user).results[0]);
    });
  }

  std::string name_of(ir::Value value) const {
    for (const ir::Argument& argument : function_.arguments) {
      if (argument.value == value) return argument.name;
    }
    const int index = definition(value);
    const std::string& place = op(index).location;
    return place.empty() ? std::string(ir::opcode_name(op(index).code)) : place;
  }

  std::string unique_name(const std::string& wanted) {
    std::string name = wanted;
    for (int turn = 2; !names_.insert(name).second; ++turn) name = wanted + "_" + std::to_string(turn);
    return name;
  }

  const ir::Module& module_;
  const ir::Function& function_;
  const std::set<int> ops_;
  std::set<int> taken_;  // ops_ with the leaves and shape ops that they read, in order
  const std::vector<std::int32_t> definitions_;
  std::map<std::int32_t, std::vector<int>> users_;
  std::set<ir::Value> inputs_;
  std::map<std::int32_t, int>
      transposed_;  // a call's result by Value::id: the op whose result is the argument
  std::map<std::int32_t, ir::Value> values_;  // values of the cut, by Value::id in the function
  std::set<std::string> names_;
  ir::Function out_;
};

}  // namespace

Cut cut_ops(const ir::Module& module, const std::vector<int>& ops) {
  return Cutter(module, ops).cut();
}

}  // namespace rewire::runtime
