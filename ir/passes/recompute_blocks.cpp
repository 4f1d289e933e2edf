#include "ir/passes/recompute_blocks.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "ir/opcodes.h"
#include "ir/passes/liveness.h"
#include "ir/residual.h"

namespace rewire::ir {
namespace {

constexpr std::int32_t kNoBlock = -1;

bool is_gradient(const Op& op) {
  return op.location.ends_with(".grad");
}

bool stands_in(std::string_view location, std::string_view place) {
  return location.size() > place.size() && location.starts_with(place) && location[place.size()] == '.';
}

class BlockRecomputation {
 public:
  BlockRecomputation(Function& function, const std::vector<std::string>& places)
      : function_(function), liveness_(function), clones_(function.types.size()) {
    const auto first = std::ranges::find_if(function.body, is_gradient);
    forward_ = static_cast<std::size_t>(first - function.body.begin());
    for (std::size_t i = 0; i < forward_; ++i) blocks_.push_back(block_of(function.body[i], places));
  }

  bool run() {
    if (forward_ == function_.body.size()) return false;
    hold();
    const std::vector<Op> old = std::move(function_.body);
    function_.body.assign(old.begin(), old.begin() + static_cast<std::ptrdiff_t>(forward_));
    bool changed = false;
    for (std::size_t i = forward_; i < old.size(); ++i) {
      Op op = old[i];
      for (Value& operand : op.operands) {
        const Value again = available(old, operand);
        changed = changed || again != operand;
        operand = again;
      }
      function_.body.push_back(std::move(op));
    }
    return changed;
  }

 private:
  static std::size_t index(Value value) { return static_cast<std::size_t>(value.id); }

  /// Returns the op's block. Weights and constants have
  /// none, and neither has what would differ a second time.
  std::int32_t block_of(const Op& op, const std::vector<std::string>& places) const {
    if (op.operands.empty() || op.results.empty() || is_weight_copy(op)) return kNoBlock;
    const auto place = std::ranges::find_if(
        places, [&](const std::string& candidate) { return stands_in(op.location, candidate); });
    return place == places.end() ? kNoBlock : static_cast<std::int32_t>(place - places.begin());
  }

  bool is_weight_copy(const Op& op) const {
    if (op.code != Opcode::cast) return false;
    const std::int32_t at = liveness_.definition(liveness_.storage(op.operands[0]));
    return at >= 0 && function_.body[static_cast<std::size_t>(at)].code == Opcode::param;
  }

  void hold() {
    for (std::size_t i = 0; i < forward_; ++i) {
      const Op& op = function_.body[i];
      for (const Value operand : op.operands) {
        const std::int32_t at = liveness_.definition(operand);
        if (at >= 0 && blocks_[static_cast<std::size_t>(at)] != blocks_[i]) held_.insert(operand);
      }
    }
    for (const Argument& result : function_.results) held_.insert(result.value);
    for (const Op& op : function_.body) {
      if (op.code != Opcode::compare) continue;
      for (const std::size_t k : {0, 1}) {
        const Value value = liveness_.storage(op.operands[k]), other = liveness_.storage(op.operands[1 - k]);
        const std::int32_t at = liveness_.definition(other);
        if (at < 0 || function_.body[static_cast<std::size_t>(at)].code != Opcode::max) continue;
        if (liveness_.storage(function_.body[static_cast<std::size_t>(at)].operands[0]) != value) continue;
        held_.insert({value, other, op.operands[0], op.operands[1]});
      }
    }
  }

  /// Returns the value itself if it is held or made after forward. Otherwise clones its op now.
  Value available(const std::vector<Op>& old, Value value) {
    const std::int32_t at = liveness_.definition(value);
    if (at < 0 || static_cast<std::size_t>(at) >= forward_ || held_.contains(value) ||
        blocks_[static_cast<std::size_t>(at)] == kNoBlock)
      return value;
    if (clones_[index(value)]) return clones_[index(value)];
    Op copy = old[static_cast<std::size_t>(at)];
    for (Value& operand : copy.operands) operand = available(old, operand);
    copy.location += ".recomputed";
    for (Value& result : copy.results) {
      const Value clone = function_.new_value(TensorType(function_.type(result)));
      clones_[index(result)] = clone;
      result = clone;
    }
    const Value clone = clones_[index(value)];
    function_.body.push_back(std::move(copy));
    return clone;
  }

  Function& function_;
  const Liveness liveness_;
  std::size_t forward_ = 0;           // ops before the first gradient
  std::vector<std::int32_t> blocks_;  // of each of these ops: an index of the places, or kNoBlock
  std::set<Value> held_;
  std::vector<Value> clones_;  // by Value::id
};

}  // namespace

std::vector<std::string> block_places(const Module& module) {
  std::vector<std::string> places;
  for (const Function& function : module.functions) {
    for (const std::size_t at : find_joins(function)) {
      std::string place = read_join(function.body[at]).place;
      if (std::ranges::find(places, place) == places.end()) places.push_back(std::move(place));
    }
  }
  return places;
}

bool recompute_blocks(Function& function, const std::vector<std::string>& places) {
  return BlockRecomputation(function, places).run();
}

}  // namespace rewire::ir
